"""The agent side: models, planners, the router, and the loop that solves a task with them."""
