"""The comparison harness: measures callgate beside its peers, in one run, and says what was reached and what was not.

``python -m callgate.bench`` prints the table. `measures` has one file per subject, `rows` says what a line of the table
is; peers that need an interpreter of their own run in a process of their own (`peers`).
"""
