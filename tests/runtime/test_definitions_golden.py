"""Definitions, instructions and tool choices are the golden ones, byte for byte, and what the SDKs take.

`golden_files` has the command that writes them anew.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from anthropic.types import ToolChoiceParam
from openai.types.chat import ChatCompletionToolChoiceOptionParam
from openai.types.responses.tool_choice_function_param import ToolChoiceFunctionParam
from openai.types.responses.tool_choice_options import ToolChoiceOptions

from callgate import Limits, Tool, tool
from callgate.runtime.model.providers import PROVIDERS
from runtime.definitions import CHECK, OF_EACH_KIND, TWO, adapter, callers, fits, get_weather, made, many, order
from runtime.golden_files import same

CODE, PLAN, ALL = {"meta": ["execute_code"]}, {"meta": ["execute_tool_plan"]}, {"direct": "all"}
IN_ANTHROPICS_CODE = {**ALL, "programmatic": "code_execution_20260120"}
BOTH, ALONE = callers("both", "direct", "code", "plan"), callers("alone", "direct")
TEXT = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}


@tool
async def get_stock(product: str) -> dict[str, int]:
    """What is in stock.

    Gives {"units": int}.

    Args:
        product: as the catalogue names it.
    """
    return {}


def may(name: str, argument: str = "path", **options: Any) -> Tool:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return Tool.from_schema(name, f"Does {name}.", schema, print, **options)


def of_files(name: str) -> Tool:
    return Tool.from_schema(
        f"files_{name}", "", {"type": "object"}, print, server="files", server_tool=name, output_schema=TEXT
    )


SCENES: dict[str, tuple[list[Tool], dict[str, dict[str, Any]], dict[str, Any]]] = {
    "each kind": (
        OF_EACH_KIND,
        {
            **{f"{provider}: by default": {} for provider in PROVIDERS},
            **{f"{provider}: all themselves": {"meta": [], **ALL} for provider in PROVIDERS},
            **{f"{provider}: strict": {**CODE, **ALL, "strict": True} for provider in PROVIDERS if provider != "mcp"},
            "openai: some tools, and a text of the operator's": {
                **CODE, **ALL, "tools": ["get_weather", "only_in_code"], "texts": {"execute_code": "Führe Python aus."},
                "inline_characters": 0,
            },
            "anthropic: deferred": {**CODE, **ALL, "defer": ["get_weather"]},
            "anthropic: in its code": {**CODE, **IN_ANTHROPICS_CODE, "defer": "all"},
            "anthropic: in its code, strict": {"meta": [], **IN_ANTHROPICS_CODE, "strict": True},
            "openai-responses: deferred": {**CODE, **ALL, "defer": "all"},
            "openai-responses: in its code": {**CODE, **ALL, "defer": "all", "programmatic": "programmatic"},
        },
        {},
    ),
    "two": (
        TWO,
        {
            "anthropic: by default": {},
            "anthropic: all themselves": ALL,
            "anthropic: plans alone": PLAN,
            "anthropic: one of them": {"tools": ["get_weather"]},
            "anthropic: the operator's text": {**CODE, "texts": {"execute_code": "Führe Python aus."}},
        },
        {},
    ),
    "limits": (TWO, {"anthropic: programs": CODE}, {"limits": Limits(wall_seconds=7.5, max_tool_calls=40)}),
    "a sandbox": ([order], {"anthropic: programs": CODE}, {"sandbox": "unsafe"}),
    "restricted": ([order], {"anthropic: programs": CODE}, {"sandbox": "unsafe", "policy": "restricted"}),
    "all read": ([get_weather], {"mcp: programs": CODE}, {}),
    "one destroys": ([get_weather, may("drop", destructive=True)], {"mcp: programs": CODE}, {}),
    "no harmless example": (
        [
            may("wipe", destructive=True), may("write"), may("overwrite", idempotent=True),
            may("ask", read_only=True, requires_approval=True),
        ],
        {"anthropic: by default": {"inline_characters": 0}},
        {},
    ),
    "for both": (
        [BOTH],
        {"anthropic: by default": {}, "anthropic: plans": {"meta": ["search_tools", "execute_tool_plan"]},
         "anthropic: none in the text": {"inline_characters": 0}},
        {},
    ),
    "for both, and nobody": ([BOTH, callers("nobody")], {"anthropic: by default": {}}, {}),
    "for both, and models": (
        [BOTH, ALONE],
        {"anthropic: all": {}, "anthropic: itself": {"direct": ["alone"]}, "anthropic: some": {"tools": ["both"]}},
        {},
    ),
    "for models": ([ALONE], {"anthropic: all themselves": ALL}, {}),
    "for both, and plans": ([BOTH, callers("planned", "plan")], {f"{each}: by default": {} for each in PROVIDERS}, {}),
    "for both, and programs": (
        [BOTH, callers("coded", "code")],
        {"anthropic: by default": {}, "anthropic: plans": {"meta": ["search_tools", "execute_tool_plan"]}},
        {},
    ),
    "thirty for programs": ([BOTH, *(callers(f"c{n}", "code") for n in range(30))], {"anthropic: by default": {}}, {}),
    "tools of a server": ([of_files(name) for name in ("find", "list_all", "read")], {"anthropic: programs": CODE}, {}),
    "own words": (
        [get_stock], {"anthropic: programs": CODE, "anthropic: no room": {**CODE, "inline_characters": 120}}, {},
    ),
    "2 alike": (many(2), {"anthropic: programs": CODE}, {}),
    "60": (many(60), {"openai: programs": CODE, "openai-responses: programs": CODE}, {}),
    "150": (
        many(150),
        {f"anthropic: {' and '.join(meta) or 'alone'}": {"meta": [*meta, "execute_code"]} for meta in (
            ["search_tools", "describe_tools"], ["search_tools"], ["describe_tools"], [])},
        {},
    ),
    "3000": (many(3_000, server="github"), {"anthropic: by default": {}}, {}),
}  # fmt: skip
"""Tools, definitions that are asked for (provider, what it is, options), and options of the runtime."""


def written(name: str, value: Any) -> None:
    same(f"{name}.json", json.dumps(value, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("scene", SCENES)
def test_definitions_are_the_golden_ones_and_fit_the_sdk(scene: str) -> None:
    tools, asked, given = SCENES[scene]
    runtime = made(*tools, **given)
    golden: dict[str, Any] = {}
    for what, options in asked.items():
        provider: Any = what.partition(":")[0]
        definitions = runtime.tool_definitions(provider, **options)
        for each in definitions:
            CHECK[provider](each)
        golden[what] = {"definitions": definitions, "instructions": runtime.instructions(**options)}
    python = ".".join(map(str, sys.version_info[:2]))
    written(scene, json.loads(json.dumps(golden).replace(f"Python {python}", "Python 3.x")))


def test_what_a_conversation_says_of_tools_that_it_may_find_is_golden() -> None:
    runtime = made(*many(3_000))
    golden = {
        name: {"definitions": found.tool_definitions("mcp"), "instructions": found.instructions()}
        for name, found in (
            ("by default", runtime.conversation()), ("one itself", runtime.conversation(direct=["tool_number_1"]))
        )
    }  # fmt: skip
    written("a conversation", golden)


def test_tool_choices_are_the_golden_ones_and_fit_the_sdk() -> None:
    runtime = made()
    golden: dict[str, Any] = {}
    for parallel in (None, True, False):
        for choice in ("auto", "required", "none", "get_weather", "search_tools"):
            said = {
                provider: runtime.tool_choice(provider, choice, parallel=parallel, direct="all")
                for provider in PROVIDERS if provider != "mcp"
            }  # fmt: skip
            fits(said["anthropic"]["tool_choice"], ToolChoiceParam)
            adapter(ChatCompletionToolChoiceOptionParam).validate_python(said["openai"]["tool_choice"])
            shape = ToolChoiceOptions if choice in ("auto", "required", "none") else ToolChoiceFunctionParam
            adapter(shape).validate_python(said["openai-responses"]["tool_choice"])
            golden[f"{choice}, parallel={parallel}"] = said
    written("tool choices", golden)
