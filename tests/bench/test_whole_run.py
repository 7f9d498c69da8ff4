"""A smoke of the whole comparison without any peer's environment, and what the results say of a real model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from callgate_bench.model.talks import RealModel
from callgate_bench.whole_run import QUICK_RUN, begin


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")
def test_the_comparison_measures_whichever_callgate_is_importable(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "callgate_bench", "--quick", "--only", "weather", "--only", "slow"]
    command += ["--modes", "direct-parallel,plan,code-jail,code-fast", "--peers", "bubblewrap", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert {cell["contestant"]: (cell["outcome"], len(cell["rounds"])) for cell in results["cells"]} == dict.fromkeys(
        ("direct-parallel", "plan", "code-jail", "code-fast"), ("right", 3)
    )
    assert [entry["failure"] for entry in results["entries"] if not entry["ours"]] == [
        "it starts a process and has no tools: a program can use what it was started with, and print"
    ]
    assert [row["key"] for row in results["rows"]] == ["slow"]
    assert results["model"]["simulated"]
    assert results["sandbox"]


@pytest.mark.parametrize(
    ("base_url", "shown"),
    [
        ("", "the provider's own"),
        ("https://models.example.com/v1", "https://models.example.com/v1"),
        ("https://me:secret@models.example.com:8080/v1?key=secret#secret", "https://models.example.com:8080/v1"),
    ],
)
def test_the_results_name_a_real_model_without_its_secrets(base_url: str, shown: str) -> None:
    model = begin(replace(QUICK_RUN, model=RealModel(name="m", base_url=base_url))).model
    assert model is not None
    assert (model.simulated, model.endpoint) == (False, shown)
