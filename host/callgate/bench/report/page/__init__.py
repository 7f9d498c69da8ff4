"""`report.html`: what a run of the harness found, as one page for people. Measures nothing, and judges nothing."""

from .document import render

__all__ = ["render"]
