"""Runs plans through the gate: reads them, drives them, and builds and draws their results."""
