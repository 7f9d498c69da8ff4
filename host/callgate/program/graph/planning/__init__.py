"""From a flow to a plan: what each call is given, what it waits for, and when it is made. Without its values."""
