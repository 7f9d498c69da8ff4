"""``python -m callgate_guest``: a guest on this process's stdin and stdout. Confines nothing; its caller does."""

from __future__ import annotations

import os
import sys

from . import figures
from .session import Session, take_the_wire


def main() -> None:
    incoming, outgoing = take_the_wire()
    sys.stdin = open(0)  # noqa: SIM115
    figures.watch()
    os.environ["MPLBACKEND"] = "Agg"  # as `launching.ENVIRONMENT` has it
    session = Session()
    session.install()
    session.serve(incoming, outgoing)
    os._exit(0)


main()
