"""The audit log: a file with a line for each decision about a call, each line bound to the one before.

`chain` makes and reads lines, `file` writes them, `watcher` says what they say, `log` is what operators make, and
`verify` finds what was changed.
"""
