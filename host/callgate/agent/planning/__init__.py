"""The tool planner: from a query to stages of tool calls, and from these to results that an answer is made of."""
