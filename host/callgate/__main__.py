"""``python -m callgate``: the command line."""

from __future__ import annotations

from callgate.cli import main

if __name__ == "__main__":
    main()
