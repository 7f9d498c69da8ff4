"""The comparison: every mode and every peer do the same workloads, and single things are measured, in one run.

    whole_run.py      one run: the workloads through every contestant, then the single things
    workloads/        the nine tasks: tools, scripts in three forms, the right answer [standard library]
    contestants/      who does them: one base class, a file each; run in processes of their own [standard library]
    contest/          processes and their environments, seats, and the rounds in which contestants take turns
    model/            whom they talk to: a script behind an endpoint, or a real model; `stand_in` plays the providers
    singles/          single things that have a target, beside a peer: `callgate bench --only NAME`
    report/           the terminal's table, Markdown, the page, and `--compare`
    results.py figures.py                what a run found, its file and its arithmetic
    guests.py machine.py serving.py      processes; where and how fast; a contestant's end of the wire

A contestant's module runs in the peer's own environment, which has none of callgate's dependencies. So contestants,
workloads, `serving` and `singles.shapes` import the standard library, the peer, and each other; `callgate_modes` alone
imports callgate. The rest uses callgate's public API, so that it can measure an older checkout.
"""
