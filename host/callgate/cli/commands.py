"""The entry point: finds the command, and turns its end into an exit code and, if it failed, one ERROR and one TIP."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from callgate.errors import ConfigurationError, SandboxError

from .words import Exit, OutputLost, Stop, emit, explain

__all__ = ["COMMANDS", "DOCTOR", "main", "only_end"]

COMMANDS = {
    "run": "Run a program: in the sandbox, or as a plan if it is certain to be one.",
    "agent": "Solve a task with a model that calls tools: by itself, in plans, or in programs.",
    "plan": "Run a declarative plan of tool calls; needs no sandbox.",
    "check": "Look at a program without running it.",
    "compile": "Print the plan that a program is, or why it is not one.",
    "trace": "Write the page of an agent's transcript, or of a result that was saved with --json.",
    "tools": "List the tools of a file or module, or print typed stubs of them.",
    "runs": "Show the runs that are kept in a file, and decide about them.",
    "serve": "Serve tools, programs and plans to MCP clients, on stdio or over HTTP.",
    "doctor": "Say which sandboxes work on this machine, and what to do if none does.",
    "image": "Build the image that Docker's containers run, or say what is in it.",
    "packages": "Make a folder of packages that programs may import, or say what is in one.",
    "audit": "Check that nothing was changed in an audit log, or show what is in one.",
    "bench": "Measure every mode beside its peers, on this machine.",
    "demo": "See a program call tools from inside the sandbox, on real data.",
}
"""Commands and what they do. `callgate --help` imports none of their modules."""
DOCTOR = "`callgate doctor` says what works on this machine and what to do"

_THREADS_END_WITHIN_SECONDS = 0.5
_WORDS_TAKE_SECONDS = 5.0


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"callgate.cli.{name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise Stop(str(error), f"callgate {ctx.invoked_subcommand} --help shows what each option takes") from None
        except SandboxError as error:
            raise Stop(str(error), DOCTOR, Exit.NO_SANDBOX) from None


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from callgate import __version__

        click.echo(f"callgate {__version__}")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def callgate() -> None:
    """Run a model's Python in a sandbox, and let it call your tools.

    Exit codes: 0 ok, 1 the program failed, 2 usage, 3 no sandbox works here, 4 a limit was reached, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        arguments: the arguments after the program's name; ``None`` takes those of this process.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (for as long as the process lives)
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
        try:
            sys.stdout.flush()
        except OSError as fault:
            status = _without_stdout(fault)
    except KeyboardInterrupt:  # Ctrl-C came late
        only_end()
        status = Exit.INTERRUPTED
    except (Exception, BaseExceptionGroup):  # a fault of ours
        with contextlib.suppress(OSError):
            traceback.print_exc()
        status = Exit.FAILED
    try:
        sys.stderr.flush()
    except OSError:
        _nowhere(sys.stderr.fileno())
    _leave_threads_behind(status)
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = callgate.main(args=arguments, prog_name="callgate", standalone_mode=False)
        return status if isinstance(status, int) else Exit.OK
    except Stop as stop:
        explain(stop.message, stop.tip)
        return stop.status
    except click.exceptions.NoArgsIsHelpError as error:
        emit(error.ctx.get_help())
        return Exit.OK
    except click.ClickException as error:
        explain(error.format_message(), _tip(error))
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        only_end()
        return Exit.INTERRUPTED
    except OutputLost as lost:
        return _without_stdout(lost.fault)


def _tip(error: click.ClickException) -> str:
    """What to do about a command line that Click refuses."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return "callgate --help shows what it takes"
    group = context.parent
    of_group = {option for each in group.command.params for option in each.opts} if group else set()
    if group and isinstance(error, click.NoSuchOption) and error.option_name in of_group:
        name = context.info_name
        return f"{error.option_name} stands before {name}: {group.command_path} {error.option_name} ... {name}"
    return f"{context.command_path} --help shows what it takes"


# ends


def _nowhere(descriptor: int) -> None:
    """Send the rest of the buffer to /dev/null: it has no reader, and Python would complain about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _without_stdout(fault: OSError) -> int:
    _nowhere(sys.stdout.fileno())
    if isinstance(fault, BrokenPipeError):
        return Exit.PIPE_CLOSED
    explain(f"stdout cannot be written: {fault.strerror}", "make room, or send the output somewhere else")
    return Exit.FAILED


def only_end() -> None:
    """After Ctrl-C: ignore another one, and end within seconds, even if a write to a full pipe never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = threading.Timer(_WORDS_TAKE_SECONDS, os._exit, (Exit.INTERRUPTED,))
    end.daemon = True
    end.start()


def _leave_threads_behind(status: int) -> None:
    """End the process if a cancelled sync tool still runs in a thread: Python would wait for the thread."""
    ours = threading.current_thread()
    deadline = time.monotonic() + _THREADS_END_WITHIN_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # an impatient person: end now
        for thread in threading.enumerate():
            if thread is not ours and not thread.daemon:
                thread.join(max(deadline - time.monotonic(), 0))
                if thread.is_alive():
                    os._exit(status)
        return
    os._exit(status)
