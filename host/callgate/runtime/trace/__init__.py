"""The page of a run: one HTML document with the program or plan, its calls in time, and everything around them."""
