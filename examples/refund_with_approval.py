"""A refund that a person has to approve: the run outlives the process that asked, and the refund is made once.

`shop` starts the run, which reads an order, checks it and asks. Its process is killed with SIGKILL. Somebody approves
in another terminal. A new process of `shop` finds the run by its key and goes on: the order is not read again.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from callgate import Runtime, current_call, tool

PROGRAM = """
order = await get_order(number=17)
if order["status"] != "returned":
    raise ValueError(f"order 17 is {order['status']}: there is nothing to refund")
receipt = await refund(order=17, amount=order["paid"])
print(f"{order['paid']} euros are refunded for order 17, {receipt}")
"""


def tools(ledger: Path) -> list[Any]:
    """The tools of the shop. Each notes in the ledger what it did."""

    def note(line: str) -> None:
        with ledger.open("a") as file:
            file.write(f"{line}\n")

    @tool(read_only=True)
    async def get_order(number: int) -> dict[str, Any]:
        """One order.

        Args:
            number: its number.
        """
        note(f"read order {number}")
        return {"status": "returned", "paid": 42.5}

    @tool(requires_approval=True)
    async def refund(order: int, amount: float) -> str:
        """Pay money back. Returns the receipt's number.

        Args:
            order: the order's number.
            amount: in euros.
        """
        note(f"refund {amount} for order {order}, key {current_call().idempotency_key}")  # a bank pays once for a key
        return "receipt 1"

    return [get_order, refund]


async def shop(folder: Path) -> None:
    """Start the refund, or go on with the one that was started: the key tells them apart."""
    async with Runtime(tools(folder / "ledger"), durable=folder / "runs.db") as runtime:
        run = await runtime.start(PROGRAM, key="refund of order 17")
        print(f"run {run.id}: {run.status}", flush=True)
        print((await run.wait()).for_model())


def terminal(folder: Path, *words: str) -> str:
    """What a person types at another terminal, and what it says."""
    line = [sys.executable, "-m", "callgate", "runs", "--durable", str(folder / "runs.db"), *words]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout + done.stderr


def main(folder: Path) -> None:
    """Start, ask, kill, approve, go on."""
    process = [sys.executable, __file__, str(folder)]
    with subprocess.Popen(process, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        before, deadline = first.stdout.readline(), time.monotonic() + 60
        try:
            while "refund" not in (asked := terminal(folder, "pending")):
                assert time.monotonic() < deadline, "the run does not ask"
        finally:
            first.kill()
    assert first.returncode == -signal.SIGKILL
    assert (folder / "ledger").read_text() == "read order 17\n"

    run = asked.split()[0]
    said = terminal(folder, "approve", run, "--by", "ada")

    after = subprocess.run(process, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    done = (folder / "ledger").read_text().splitlines()
    assert [line.split(",")[0] for line in done] == ["read order 17", "refund 42.5 for order 17"], done
    assert "42.5 euros are refunded for order 17, receipt 1" in after, after

    for title, text in [
        ("the first process, until it is killed", before),
        ("callgate runs pending", asked),
        (f"callgate runs approve {run} --by ada", said),
        ("the second process", after),
    ]:
        print(f"--- {title}\n{text}", end="")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(shop(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
