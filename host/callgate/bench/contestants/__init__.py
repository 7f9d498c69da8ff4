"""The contestants: callgate's modes, and its peers, each in a process of its own; `serving` has its end of the wire.

A module here is run as ``python -m callgate.bench.contestants.NAME``, a peer's by the interpreter of an environment
that has the peer and nothing of callgate's dependencies: such a module imports the standard library, the peer,
`callgate.bench.serving`, `callgate.bench.workloads`, and of this folder `seat`, `refusals`, `references` and `plans`.
What it may be asked is in `seat`, who takes part in `listed`.
"""
