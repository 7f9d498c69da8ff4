"""Runs programs that are graphs of tool calls on the host, and hands them to the sandbox in doubt."""
