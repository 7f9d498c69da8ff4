"""What tier 2 of the jail cannot close, since without namespaces a guest sees the host's own names and numbers.

The one list of the probes: they assert each of these where `kinds` says that it holds, and its opposite elsewhere. The keys are the words with which the
doctor states them (`callgate.sandbox.doctor.LEAKS`), which a test compares.
"""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

TIER_2_LEAKS = {
    "stat": "whether a path of the host exists, its size, owner and times (stat needs no opening)",
    "site-packages": "the names of what is installed there, where it lies in the standard library's folder",
    "uname": "the host's own name",
    "process ids": "of the guest and of its zygote, as the host counts them",
    "library folder": "where on the host its Python lies",
    "scratch directory": "there is no /tmp to write to: a program in tier 2 has no files of its own",
    "threads": "their number is bounded by memory_bytes and not by max_processes: all guests have one user id",
}
