"""The forms in which tools are called: what each mode offers, and the way back when a form fails. The model chooses."""
