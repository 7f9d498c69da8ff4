"""MCP servers as tools: start them, import what they offer, carry calls, and keep them from harming the host.

`servers` is the whole, `server` one of them through starts, crashes and restarts, `connection` one conversation with
it.
"""
