"""A flow followed in the program's own order, with its values: what it prints, calls and comes to."""
