"""Plans on their way through the gate: prepared, driven, and told as results."""
