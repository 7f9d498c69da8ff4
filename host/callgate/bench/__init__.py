"""The comparison harness: every mode and every peer do the same workloads, and single things are measured, in one run.

`whole_run` is a run, `results` what comes of it. `workloads` are the tasks, `contestants` who does them, `contest` how
they take turns, `model` whom they talk to, `singles` what is measured besides, `peers` beside whom, `report` what
people and programs get.

Rooms share `figures` and `rows`, which are arithmetic and data, `machine` and `yardstick`, which say where and how
fast, and `serving`, the end of the wire that runs within a peer's process.
"""
