"""Traces and metrics for OpenTelemetry. `spans` is the one file that imports it."""
