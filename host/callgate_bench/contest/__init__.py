"""How `contestants` are compared, and how often: their environments, processes, rounds and memory."""
