"""`ReActPlanner`: a turn's tool calls, from descriptions of tools, a strategic plan, and what was done so far."""
