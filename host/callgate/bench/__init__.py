"""The comparison harness: measures callgate beside its peers, in one run, and says what was reached and what was not.

``python -m callgate.bench`` prints the table. The rows and their targets stand in `rows`, one file per subject measures them in
`measures`; peers that need an interpreter of their own run in a process of their own (`peers`).
"""
