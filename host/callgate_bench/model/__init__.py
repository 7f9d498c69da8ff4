"""The model of a comparison: a script behind a real HTTP endpoint, or a real one; and the conversations with it."""
