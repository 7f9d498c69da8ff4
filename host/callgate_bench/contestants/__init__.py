"""The contestants: callgate's modes, and its peers, each in a process of its own; `serving` has its end of the wire.

A module here is run as ``python -m callgate_bench.contestants.NAME``, a peer's by a Python that has the peer's packages
and nothing of callgate's dependencies: such a module imports the standard library, the peer,
`callgate_bench.serving`, `callgate_bench.workloads`, `callgate_bench.singles.shapes`, and of this folder `contestant`
and `played_agent`. What it may be asked is in `contestant`, who takes part in `listed`.
"""
