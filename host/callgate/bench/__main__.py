"""``python -m callgate.bench``: measure, print the table, write it to files where asked."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from callgate.errors import SandboxUnavailable

from .context import CALLS, FULL, QUICK, BenchFailed
from .harness import run
from .measures import MEASURES


@click.command()
@click.option("--quick", is_flag=True, help="Fewer of everything: half a minute instead of a few.")
@click.option("--only", multiple=True, type=click.Choice(list(MEASURES)), help="Just this; may be repeated.")
@click.option(
    "--calls", type=click.Path(path_type=Path), default=CALLS, help="For share: the folder with BFCL's parallel calls."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every figure to FILE.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the page of the documentation to FILE.")
def main(quick: bool, only: tuple[str, ...], calls: Path, json_file: Path | None, markdown: Path | None) -> None:
    """Measure callgate beside its peers, in one run."""
    errors = Console(stderr=True)

    def told(name: str) -> None:
        errors.print(f"[dim]measuring {name} ...[/dim]")

    try:
        report = run(QUICK if quick else FULL, only, told, calls=calls)
    except (SandboxUnavailable, BenchFailed) as error:
        errors.print(f"ERROR {error}", markup=False)
        sys.exit(1)
    console = Console()
    report.show(console if console.is_terminal else Console(width=180))
    if json_file is not None:
        json_file.write_text(report.to_json())
    if markdown is not None:
        markdown.write_text(report.to_markdown())


main()
