"""The audit log: a file with a line for each decision about a call, each line bound to the one before."""
