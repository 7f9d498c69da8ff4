"""Tool search, the pure part: which tools a query means. No clock, no event loop, no I/O."""
