"""Models by their names, and the environment variables of the references."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.models.wires import request, says
from callgate.agent.models.direct import DirectModel as SdkModel
from callgate.agent.models.model import Request, User
from callgate.agent.models.named import OLLAMA_URL, model_named, tool_choice_from_environment
from callgate.agent.models.recording import RecordingModel
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.planning.settings import PlannerSettings
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate_bench.model.stand_in import AnthropicMessages, OpenAIChat, Script, serving
from callgate_bench.model.stand_in.server import KEY

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for provider in ("OPENAI", "ANTHROPIC"):
        for name in ("API_KEY", "BASE_URL", "AUTH_TOKEN"):
            monkeypatch.delenv(f"{provider}_{name}", raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))


def _client(model: Any) -> Any:
    """The SDK's client of a model."""
    return model._model.client


@pytest.mark.parametrize(
    ("spec", "name", "provider", "host"),
    [
        ("openai:gpt-5", "gpt-5", "openai", "api.openai.com"),
        ("gpt-5", "gpt-5", "openai", "api.openai.com"),
        ("qwen3:8b", "qwen3:8b", "openai", "api.openai.com"),
        ("anthropic:claude-sonnet-4", "claude-sonnet-4", "anthropic", "api.anthropic.com"),
        ("claude-sonnet-4", "claude-sonnet-4", "anthropic", "api.anthropic.com"),
        ("openai:claude-by-a-gateway", "claude-by-a-gateway", "openai", "api.openai.com"),
        ("ollama:qwen3:8b", "qwen3:8b", "openai", "localhost"),
    ],
)
async def test_a_name_says_whose_model_it_is(spec: str, name: str, provider: str, host: str) -> None:
    model = model_named(spec, api_key="a key")
    assert isinstance(model, SdkModel)
    assert (model.name, model.provider, _client(model).base_url.host) == (name, provider, host)
    await model.aclose()


@pytest.mark.parametrize("spec", ["openai", "anthropic"])
async def test_keys_and_addresses_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    api = OpenAIChat if spec == "openai" else AnthropicMessages
    with serving(api(Script(says("here")))) as address:
        monkeypatch.setenv(f"{spec.upper()}_BASE_URL", f"{address}/v1" if spec == "openai" else address)
        monkeypatch.setenv(f"{spec.upper()}_API_KEY", KEY)
        model = model_named(f"{spec}:m")
        assert (await model.ask(request())).turn.text == "here"
        await model.aclose()


async def test_a_server_of_ones_own_needs_no_key_and_ollama_gets_none_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for spec in ("openai:m", "anthropic:m"):
        await model_named(spec, base_url="http://127.0.0.1:1").aclose()
    monkeypatch.setenv("OPENAI_API_KEY", "of OpenAI")
    model = model_named("ollama:m")
    assert isinstance(model, SdkModel)
    assert _client(model).api_key == "ollama"
    assert str(_client(model).base_url) == f"{OLLAMA_URL}/"
    await model.aclose()


@pytest.mark.parametrize(("spec", "api"), [("openai:m", OpenAIChat), ("anthropic:m", AnthropicMessages)])
async def test_a_key_may_have_the_end_of_its_line(monkeypatch: pytest.MonkeyPatch, spec: str, api: Any) -> None:
    variable = f"{spec.partition(':')[0].upper()}_API_KEY"
    monkeypatch.setenv(variable, f" {KEY}\r\n")
    with serving(api(Script(says("here")))) as address:
        model = model_named(spec, base_url=f"{address}/v1" if "openai" in spec else address)
        assert (await model.ask(request())).turn.text == "here"
        await model.aclose()
    for wrong in ("sk-\u2026", "sk-one\nsk-two"):
        monkeypatch.setenv(variable, wrong)
        with pytest.raises(ConfigurationError, match=f"the key in {variable} has characters that no header can hold"):
            model_named(spec)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_address_of_the_environment_may_be_empty_and_has_to_be_one(
    monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    variable = f"{provider.upper()}_BASE_URL"
    monkeypatch.setenv(variable, " ")
    model = model_named(f"{provider}:m", api_key="a key")
    assert isinstance(model, SdkModel)
    assert _client(model).base_url.host == f"api.{provider}.com"
    await model.aclose()
    monkeypatch.setenv(variable, "localhost:8000/v1")
    with pytest.raises(ConfigurationError, match=f"{variable} has to begin with http"):
        model_named(f"{provider}:m", api_key="a key")


@pytest.mark.parametrize(("spec", "variable"), [("openai:m", "OPENAI_API_KEY"), ("claude-4", "ANTHROPIC_API_KEY")])
async def test_without_a_key_the_variable_is_named(spec: str, variable: str) -> None:
    with pytest.raises(ConfigurationError, match=f"there is no key for .*: set the environment variable {variable}"):
        model_named(spec)


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_without_the_sdk_what_to_install_is_named(monkeypatch: pytest.MonkeyPatch, sdk: str) -> None:
    monkeypatch.setitem(sys.modules, sdk, None)
    words = f"the SDK {sdk} is not installed: {how_to_install('agent')}"
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        model_named(f"{sdk}:m", api_key="a key")


@pytest.mark.parametrize("spec", ["", "openai:", "ollama: ", "replay:"])
async def test_a_model_has_to_be_named(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="a model has to be named, as openai:NAME"):
        model_named(spec)


async def test_what_cannot_work_is_told_when_the_model_is_made() -> None:
    with pytest.raises(ConfigurationError, match="base_url has to begin with http"):
        model_named("openai:m", base_url="localhost:11434", api_key="a")
    with pytest.raises(ConfigurationError, match="timeout_seconds"):
        model_named("openai:m", api_key="a", timeout_seconds=0)


async def test_a_recording_is_a_model(tmp_path: Path) -> None:
    await RecordingModel(ScriptedModel(["yes"]), tmp_path / "r").ask(request())
    assert (await model_named(f"replay:{tmp_path / 'r'}").ask(request())).turn.text == "yes"


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({}, "auto"),
        ({"OPENAI_TOOL_CHOICE": ""}, "auto"),
        ({"OPENAI_TOOL_CHOICE": "required"}, "required"),
        ({"OPENAI_TOOL_CHOICE": " none "}, "none"),
        ({"OPENAI_TOOL_CHOICE": "search_database"}, "search_database"),
        ({"OPENAI_TOOL_CHOICE": '{"type": "function", "function": {"name": "search_database"}}'}, "search_database"),
    ],
)
async def test_the_tool_choice_comes_from_the_environment(given: dict[str, str], choice: str) -> None:
    assert tool_choice_from_environment(given) == choice


@pytest.mark.parametrize("wrong", ["a tool", "{", "{}", '{"function": []}', "x" * 200])
async def test_a_tool_choice_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_TOOL_CHOICE has to be auto, required, none"):
        tool_choice_from_environment({"OPENAI_TOOL_CHOICE": wrong})


@pytest.mark.parametrize(
    ("llm", "name", "provider"),
    [("anthropic", "claude-sonnet-4", "anthropic"), ("ollama", "qwen3:8b", "openai"), ("openai", "gpt-5", "openai")],
)
async def test_the_planners_model_is_the_one_that_the_environment_names(llm: str, name: str, provider: str) -> None:
    variables = {"TOOL_PLANNER_LLM": llm, "TOOL_PLANNER_MODEL": name, "TOOL_PLANNER_TEMPERATURE": "0.3"}
    settings = PlannerSettings.from_environment(variables)
    model = model_named(settings.planner_model, api_key="a key")
    assert (model.name, model.provider, settings.temperature) == (name, provider, 0.3)
    await model.aclose()
    assert Request(messages=[User(text="")], temperature=settings.temperature).temperature == 0.3
