"""The loop: ask the model, do what it calls, within a budget, with a transcript that can be resumed."""
