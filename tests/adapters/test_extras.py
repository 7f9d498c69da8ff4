"""The foreign packages are extras: callgate is imported without them; an adapter says what it misses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from callgate.extras import how_to_install

PACKAGES = ("pydantic_ai", "langchain_core", "langchain", "agents", "openai", "anthropic", "mcp")


def _python(source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)


def test_importing_all_of_callgate_imports_none_of_them() -> None:
    source = "import sys, callgate, callgate.cli\n[getattr(callgate, name) for name in callgate.__all__]\n"
    done = _python(source + f"print([name for name in {PACKAGES} if name in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("langchain", "langchain_core", "langchain"),
        ("langchain_middleware", "langchain", "langchain"),
        ("openai_agents", "agents", "openai-agents"),
    ],
)
def test_an_adapter_without_its_package_says_what_to_install(adapter: str, package: str, extra: str) -> None:
    done = _python(f"import sys\nsys.modules[{package!r}] = None\nimport callgate.adapters.{adapter}")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert last.endswith(f"is not installed: {how_to_install(extra)}")
