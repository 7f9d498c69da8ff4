"""The document around a page's parts: its policy and its style. Looks well on wide and narrow screens, in light and in
dark, and on paper."""

from __future__ import annotations

import functools
from importlib.resources import files
from string import Template
from typing import Final

from .markup import Tone

__all__ = ["document"]

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header>
<p class="kind"><span class="badge $tone">$status</span> $kind</p>
<h1>$title</h1>
<dl class="cards">$cards</dl>
</header>
<main>
$body
</main>
</body>
</html>
""")


@functools.cache
def _style() -> str:
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def document(*, title: str, kind: str, status: str, tone: Tone, cards: str, body: str) -> str:
    """A whole page. All arguments are markup.

    Args:
        title: its heading.
        kind: what it shows.
        status: how that ended, in a word or two.
        tone: of the status.
        cards: the figures at the top.
        body: the sections.
    """
    return _PAGE.substitute(title=title, style=_style(), tone=tone, status=status, kind=kind, cards=cards, body=body)
