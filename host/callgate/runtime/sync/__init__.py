"""The runtime for code without ``await``: a background thread has the event loop, and callers wait for it."""
