"""Guests in containers of a Docker engine: `backend` opens them, `container` is one, `image` builds what they run."""
