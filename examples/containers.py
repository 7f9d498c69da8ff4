"""Programs in Docker containers: one for each run, or one that serves run after run of a tenant.

Needs an engine and the image of `callgate image build`; says so, and ends, where one of them is missing.
"""

from __future__ import annotations

import asyncio

from callgate import DockerBackend, Limits, Runtime, SandboxUnavailable, tool

PROGRAM = """
import os, pathlib, socket
pathlib.Path("note").write_text("left by a run")
print("I am on", socket.gethostname(), "and see", sorted(os.listdir(".")))
await price("bolt") * 12
"""


@tool(read_only=True)
async def price(item: str) -> int:
    """Price in cents."""
    return {"bolt": 25}.get(item, 0)


async def one_for_each_run() -> None:
    async with Runtime([price], sandbox="docker", path="sandbox", pool_size=2) as runtime:
        print(runtime.backend.description)
        for _ in range(2):
            run = await runtime.execute_code(PROGRAM)
            print(run.for_model())
            assert run.value == 300
            assert run.logs.endswith("['note']\n"), "what the first run left is gone with its container"


async def one_for_a_tenant() -> None:
    backend = DockerBackend(per="tenant", cpus=0.5)
    async with Runtime([price], sandbox=backend, path="sandbox", pool_size=1) as runtime:
        for _ in range(10):
            run = await runtime.execute_code("import sys\nseen = hasattr(sys, 'seen')\nsys.seen = True\nseen")
            assert run.value is False, "a fresh guest for each run"
        print("10 runs,", len(backend.containers), "containers")
        assert len(backend.containers) <= 2, "one that runs, one that is ready"

        endless = await runtime.execute_code("while True: pass", limits=Limits(wall_seconds=0.5))
        assert endless.error is not None
        print(endless.error.message)


async def main() -> None:
    try:
        await one_for_each_run()
        await one_for_a_tenant()
    except SandboxUnavailable as reason:
        print(f"not shown: {reason}")


if __name__ == "__main__":
    asyncio.run(main())
