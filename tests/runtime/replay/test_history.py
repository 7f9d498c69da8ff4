"""Recorded events as they stand on the wire."""

from __future__ import annotations

import json

from callgate.runtime.replay.history import History, ReplayEvent

DONE = ReplayEvent(2.5, 1, "take", '{"b":1,"a":[2]}', '{"x":1}')
FAILED = ReplayEvent(3.0, 2, "take", "{}", '{"code":-32000,"message":"no","data":{}}', failed=True)
TIMER = ReplayEvent(4.25)


def test_a_live_event_is_a_reply_with_its_time_or_the_end_of_a_timer() -> None:
    assert json.loads(DONE.message) == {"jsonrpc": "2.0", "result": {"x": 1}, "id": 1, "time": 2.5}
    failure = {"code": -32000, "message": "no", "data": {}}
    assert json.loads(FAILED.message) == {"jsonrpc": "2.0", "error": failure, "id": 2, "time": 3.0}
    assert json.loads(TIMER.message) == {"jsonrpc": "2.0", "method": "$event", "params": {"time": 4.25}}


def test_a_recorded_event_has_the_call_too() -> None:
    assert json.loads(DONE.recorded)["call"] == ["take", '{"b":1,"a":[2]}']
    assert TIMER.recorded == TIMER.message


def test_a_history_can_be_cut_off_at_any_event() -> None:
    history = History(seed=b"\x01", start=1.0, events=(DONE, FAILED, TIMER))
    assert history.cut(0) == History(seed=b"\x01", start=1.0)
    assert history.cut(2).events == (DONE, FAILED)
    assert (history.last, history.cut(0).last) == (4.25, 1.0)
    assert json.loads(history.member) == {"seed": "01", "start": 1.0, "events": 3}


def test_a_history_goes_in_pieces_of_whole_lines() -> None:
    large = ReplayEvent(2.0, 1, "take", "{}", json.dumps("x" * 100_000))
    history = History(events=(large,) * 10)
    pieces = list(history.lines())
    assert len(pieces) > 2
    assert all(piece.endswith(b"\n") and len(piece) < 500_000 for piece in pieces)
    assert b"".join(pieces) == large.recorded * 10


def test_two_new_histories_have_other_seeds() -> None:
    assert History().seed != History().seed
    assert len(History().seed) == 32
