"""Programs that are graphs of tool calls: recognised, written as plans, and walked. Pure: makes no call."""
