"""The entry point: finds the command, and turns whatever ends it into one ERROR line, one TIP and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from .ending import leave_threads_behind, only_end
from .words import FAILED, INTERRUPTED, OK, PIPE_CLOSED, USAGE, OutputLost, Stop, explain

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "run": "Run a program: in the sandbox, or as a plan where it is certain to be one.",
    "agent": "Solve a task with a model that calls tools: by itself, in plans, or in programs.",
    "plan": "Run a declarative plan of tool calls; needs no sandbox.",
    "check": "Look at a program without running it.",
    "compile": "Print the plan that a program is, or why it is none.",
    "tools": "List the tools of a file or module, or print typed stubs of them.",
    "serve": "Serve tools, and what runs them, to MCP clients, on stdio or over HTTP.",
    "doctor": "Say what confines programs on this machine, and what to do where nothing does.",
    "image": "Build the image that Docker's containers run, or say what is in it.",
    "bench": "Measure every mode beside its peers, on this machine.",
    "demo": "See a program call tools from inside the sandbox, on real data.",
}
"""Commands and what they do; `callgate --help` needs none of their modules."""


class _Commands(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"callgate.cli.{name}").command
        return found

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from callgate import __version__

        click.echo(f"callgate {__version__}")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def callgate() -> None:
    """Run a model's Python in a sandbox, and let it call your tools.

    Exit codes: 0 ok, 1 the program failed, 2 usage, 3 no sandbox works here, 4 a limit was reached, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        arguments: those after the program's name; ``None`` takes the process's own.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (for as long as the process lives)
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
        try:
            sys.stdout.flush()
        except OSError as fault:
            status = _without_stdout(fault)
    except KeyboardInterrupt:  # one that came late
        only_end()
        status = INTERRUPTED
    except (Exception, BaseExceptionGroup):  # a fault of ours
        with contextlib.suppress(OSError):
            traceback.print_exc()
        status = FAILED
    leave_threads_behind(status)
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = callgate.main(args=arguments, prog_name="callgate", standalone_mode=False)
        return status if isinstance(status, int) else OK
    except Stop as stop:
        explain(stop.message, stop.tip)
        return stop.status
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "callgate"
        explain(error.format_message(), f"{command} --help shows what it takes")
        return USAGE
    except click.ClickException as error:
        explain(error.format_message(), "callgate --help shows what there is")
        return USAGE
    except (KeyboardInterrupt, click.Abort):
        only_end()
        return INTERRUPTED
    except OutputLost as lost:
        return _without_stdout(lost.fault)


def _without_stdout(fault: OSError) -> int:
    # what is left in the buffer has nowhere to go; without this, Python complains about it at its end
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(fault, BrokenPipeError):
        return PIPE_CLOSED
    explain(f"stdout cannot be written: {fault.strerror}", "make room, or send the output somewhere else")
    return FAILED
