"""Played models for the tests of `callgate agent`: behind real HTTP, on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator

from callgate_bench.model.stand_in import Call, Move, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from cli.command import Command, Outcome

TOOLS = ("--tools", "tools.py")
OSLO = Call("get_weather", {"city": "Oslo"})

Played = Callable[[Turn], Move]


def with_key(cli: Command) -> Command:
    """The command in an environment with a key, for the stand-in."""
    return dataclasses.replace(cli, variables={"OPENAI_API_KEY": KEY})


def _plays(move: Move | Played) -> Played:
    return move if callable(move) else lambda _: move


@contextlib.contextmanager
def playing(*moves: Move | Played) -> Iterator[tuple[OpenAIChat, tuple[str, ...]]]:
    """An endpoint with this model, and the options that name it."""
    api = OpenAIChat(Script(*map(_plays, moves)))
    with serving(api) as address:
        yield api, ("--model", "openai:played", "--base-url", f"{address}/v1")


def asked(cli: Command, *moves: Move | Played, options: tuple[str, ...] = (*TOOLS, "--mode", "direct")) -> Outcome:
    """The command, with this model."""
    with playing(*moves) as (_, model):
        return cli("agent", "How warm is Oslo?", *model, *options)


def warm(turn: Turn) -> Move:
    """An answer from what the tool gave."""
    degrees = json.loads(turn.answers[-1].text)["temp"]
    return f"{degrees} degrees."
