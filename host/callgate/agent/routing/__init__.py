"""The router: whether a task is done by direct calls, as a plan or as a program, and what to do when one fails."""
