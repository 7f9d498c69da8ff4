"""Searching the tools, and one model's conversation: which tools it has found, and which were loaded for it."""
