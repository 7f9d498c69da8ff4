"""What tier 2 of the jail cannot close, since without namespaces a guest sees the host's own names and numbers.

The one list: the probes assert each of these in tier 2 and its opposite in tier 1, and the documentation tells of the same.
"""

from __future__ import annotations

TIER_2_LEAKS = {
    "stat": "whether a path of the host exists, its size, owner and times (stat needs no opening)",
    "packages": "the names of what is installed below site-packages, where that lies in the standard library's folder",
    "hostname": "the host's name and kernel version (uname)",
    "pids": "the process ids of the guest and of its zygote, as the host counts them",
    "library paths": "where on the host its Python lies",
    "scratch": "there is no /tmp to write to: a program in tier 2 has no files of its own",
    "threads": "their number is bounded by memory_bytes and not by max_processes: all guests have one user id",
}
