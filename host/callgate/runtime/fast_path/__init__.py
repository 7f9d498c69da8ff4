"""Programs that are graphs of tool calls, run on the host: looked at once, walked, and handed over where in doubt."""
