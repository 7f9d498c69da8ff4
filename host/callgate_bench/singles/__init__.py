"""Single things, measured beside peers: a row each; `measures` has one file a subject."""
