"""Programs as models write them, all of them valid, and the tools they call. Used by the tests of this folder."""

from __future__ import annotations

from callgate.program import ToolShape
from program.programs_of_forms import FORMS
from program.programs_of_shapes import SHAPES

TOOLS = [
    ToolShape("get_weather", ("city", "units"), frozenset({"city"})),
    ToolShape("query_sales", ("region",), frozenset({"region"})),
    ToolShape("send_report", ("title", "body", "name"), frozenset({"title", "body"})),
    ToolShape("list_files", (), frozenset()),
    ToolShape("search", ("query",), frozenset({"query"}), accepts_any=True),
    ToolShape("get_user", ("user_id",), frozenset({"user_id"})),
    ToolShape("spotify_play", ("artist", "duration"), frozenset({"artist", "duration"})),
]

PROGRAMS = [*SHAPES.split("---\n"), *FORMS.removeprefix("\n").split("---\n")]
