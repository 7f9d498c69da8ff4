"""Every tool of the collections has a definition that each provider's SDK takes, within the providers' own rules."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from callgate import Runtime
from callgate.runtime.model.providers import MAX_DESCRIPTION, PROVIDERS
from callgate.tools import Registry
from runtime.definitions import CHECK, META, name_of
from tools.test_stubs_data import SETS, tools_of

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MOST = 300
"""Tools of one collection that are held against the SDKs; every one's name leads back."""


def runtime_of(collection: str) -> Runtime:
    registry = Registry()
    for each in tools_of(collection):
        registry.add(each, rename=True)
    return Runtime(registry, sandbox=None)


@pytest.mark.parametrize("collection", SETS)
def test_every_tool_has_a_definition_for_every_provider(collection: str) -> None:
    runtime = runtime_of(collection)
    step = max(len(runtime.registry) // _MOST, 1)
    names = runtime.registry.names()[::step]
    for provider in PROVIDERS:
        definitions = runtime.tool_definitions(provider, direct=names, meta=[])
        shown = [name_of(each) for each in definitions]
        assert len(shown) == len(set(shown)) == len(names)
        for each, name in zip(definitions, names, strict=True):
            CHECK[provider](each)
            assert _NAME.fullmatch(name_of(each))
            assert runtime._answers.names.resolve(name_of(each)) == name
            inner = each.get("function", each)
            assert len(inner["description"]) <= MAX_DESCRIPTION[provider]
            schema = inner.get("input_schema") or inner.get("inputSchema") or inner.get("parameters")
            assert schema["type"] == "object"
            if provider != "mcp":
                assert all(_PROPERTY.fullmatch(key) for key in schema["properties"])
                assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & set(schema)


@pytest.mark.parametrize("collection", ["stabletoolbench", "bfcl_all"])
def test_thousands_of_tools_cost_a_model_a_few_thousand_characters(collection: str) -> None:
    runtime = runtime_of(collection)
    for provider in PROVIDERS:
        definitions = runtime.tool_definitions(provider)
        assert [name_of(each) for each in definitions] == META
        assert len(json.dumps(definitions)) < 16_000
    everything: Any = runtime.tool_definitions("anthropic", direct="all")
    assert len(everything) == len(META) + len(runtime.registry)
