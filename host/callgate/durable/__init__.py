"""Runs that outlive their process: what is kept of a run, and the stores that keep it. Runs nothing."""
