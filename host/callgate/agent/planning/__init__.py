"""The tool planner: from a query to stages of tool calls. Runs nothing."""
