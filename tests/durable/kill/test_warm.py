"""Lives that are forked are processes like others: they end with an exit code or by a signal, and their parents take
turns."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from durable.kill import warm
from durable.kill.lives import Kill, Lives

pytestmark = pytest.mark.slow


def test_a_life_ends_with_its_exit_code_or_by_a_signal_and_the_next_one_has_another_parent(tmp_path: Path) -> None:
    lives = Lives(tmp_path, "plan_chain")
    hangs = lives.start(Kill())
    hangs.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        hangs.wait(0.01)
    hangs.kill()
    assert hangs.wait(60) == -signal.SIGKILL
    dies = lives.start(Kill(point=3))
    assert dies.wait(60) == -signal.SIGKILL
    assert len(warm.pids()) == 2
    for _ in range(2):
        assert lives.start(Kill()).wait(60) == 0, (tmp_path / "stderr").read_text()
    lives.read()
    assert lives.told is not None
    assert lives.told.ok
    assert len(warm.pids()) == warm.PARENTS
    parents = warm.pids()
    warm.close()
    assert not [pid for pid in parents if Path(f"/proc/{pid}").exists()]
