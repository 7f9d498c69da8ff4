"""``callgate run``: reads the command line and the program, and starts the jail. `running` does the rest, and is
imported while the jail starts."""

from __future__ import annotations

from typing import Any

import click

from .files import files_from, folder_to_fill, folders_from
from .options import Sandbox, Source, encryption_key, inputs_from, jail_ahead, limit_options, option, options, shared
from .words import Stop, log_to_stderr

__all__ = ["command"]


class Path:
    """How a program runs."""

    path = option(type=click.Choice(["auto", "plan", "sandbox"]), default="auto")
    """Where the program runs. Default auto: as a plan, on the host, if it is certain to be a graph, else in the
    sandbox."""
    no_check = option(is_flag=True)
    """Do not look at the program before it runs."""
    replay_check = option(is_flag=True)
    """Run the program in the sandbox, then once more with the recorded answers, without a call of any tool; say what
    was not the same."""


class Durable:
    """A run that outlives its process."""

    key = option(metavar="NAME")
    """With --durable: your name of the job. The command with the key of a run that is kept goes on with that run."""


class Files:
    """Files of a program."""

    file = option(multiple=True, metavar="[NAME=]PATH")
    """A file that the program finds in /input, and by its bare name; may be repeated."""
    folder = option(multiple=True, metavar="[NAME=]PATH")
    """A folder that the program may read as /input/NAME; may be repeated."""
    output_dir = option(metavar="DIR")
    """Save here what the program displays and leaves in /output. Default: only say what there is."""


@click.command("run")
@click.argument("program", metavar="[FILE]", required=False)
@shared("code", "tools", "mcp", "allow", "input")
@options(Sandbox)
@options(Path)
@options(Files)
@shared("durable", "encryption_key_file")
@options(Durable)
@shared("policy", "trace", "audit", "ask", "yes", "verbose", "json")
@limit_options()
def command(**options: Any) -> int:
    """Run a program: FILE, or - for stdin, or -c CODE. It runs in the sandbox, unless it is certain to be a graph of
    tool calls: then it runs as a plan, with the same outcome (see --path).

    What it prints appears on stdout at once; its value, unless it is None, is the last line: text as it is, anything
    else as JSON. On a terminal, control characters in it are shown as escapes.

    With --durable, a call that needs approval puts the run to sleep: `callgate runs` shows it and decides about it.

    Exit codes: 0 ok, 1 the program failed, 2 usage, 3 no sandbox works here, 4 a limit was reached, 130 interrupted.
    """
    if options["no_check"] and options["policy"] != "none":
        raise Stop("--policy is held by the check that --no-check leaves out", "leave out one of the two")
    if options["replay_check"] and options["path"] == "plan":
        raise Stop(
            "--replay-check runs the program in the sandbox, and --path plan does not", "leave out one of the two"
        )
    if options["durable"] is None and options["key"] is not None:
        raise Stop("--key names a run that is kept, and --durable says where", "add --durable FILE")
    if options["durable"] is not None and options["replay_check"]:
        raise Stop("--replay-check keeps nothing, and --durable keeps a run", "leave out one of the two")
    if options["durable"] is not None and options["no_check"]:
        raise Stop("a run that is kept is checked before it begins", "leave out --no-check, or --durable")
    given = {
        "encryption_key": encryption_key(options),
        "file": files_from(options["file"]),
        "folder": folders_from(options["folder"]),
        "output_dir": folder_to_fill(options["output_dir"]),
    }
    source = Source.read(options["program"], options["code"])
    inputs = inputs_from(options["input"])
    log_to_stderr(options["verbose"])
    with jail_ahead({**options, **given}):
        from .running import run_program

        return run_program(source, inputs, {**options, **given})
