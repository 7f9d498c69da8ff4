"""Programs that are graphs of tool calls: told from all others, made into a plan, and walked. Pure: makes no call."""
