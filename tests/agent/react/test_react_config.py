"""The YAML of the tool choice mechanism: what it says, what is refused and where, and what a hostile file can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgate import ConfigurationError
from callgate.agent.react.config import AgentConfig, PlannerConfig, ToolDescription, gateway_model, read_config
from callgate.extras import how_to_install

REFERENCE = """
spec:
  planner:
    type: ReActPlanner
    config:
      tool_descriptions:
        - name: search_database
          description: "Search the database for records matching a query."
          args: ["query", "limit"]
        - name: get_record_details
          description: "Get detailed information about a specific record by ID."
          args: ["record_id"]
        - name: analyze_data
          description: "Analyze data and return statistical summary."
          args: ["data", "analysis_type"]
      system_prompt: |
        You are a data analysis specialist. Your role is to analyze and query data:
        - Search databases for records

        Workflow:
        1. Use search_database to find relevant records
      use_function_calling: true  # Enable OpenAI function calling
      max_parallel_tool_calls: 3   # Limit parallel tool execution

resources:
  inference_gateways:
    - name: openai-llm
      type: OpenAIGateway
      config:
        model: gpt-4o-mini
        tool_choice: "auto"  # or "required", "none", or specific tool
"""
SMALL = "spec: {planner: {type: ReActPlanner, config: {tool_descriptions: [{name: search}]}}}\n"


def gateways(*written: str) -> str:
    return SMALL + "resources:\n  inference_gateways:\n" + "".join(f"    - {each}\n" for each in written)


def refused(text: str, **environment: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_config(text, environment)
    return str(caught.value)


def test_the_yaml_of_the_reference_is_read() -> None:
    config = read_config(REFERENCE, {})
    assert [each.name for each in config.planner.tool_descriptions] == [
        "search_database",
        "get_record_details",
        "analyze_data",
    ]
    first = config.planner.tool_descriptions[0]
    assert (first.description, first.args) == (
        "Search the database for records matching a query.",
        ("query", "limit"),
    )
    assert config.planner.system_prompt.startswith("You are a data analysis specialist.")
    assert config.planner.system_prompt.endswith("relevant records\n")
    assert (config.planner.use_function_calling, config.planner.max_parallel_tool_calls) == (True, 3)
    assert config.gateway is not None
    assert (config.gateway.name, config.gateway.provider, config.gateway.config.model) == (
        "openai-llm",
        "openai",
        "gpt-4o-mini",
    )
    assert config.tool_choice("openai") == "auto"


def test_a_file_is_read_as_its_text_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(REFERENCE, encoding="utf-8-sig")
    assert read_config(path, {}) == read_config(str(path), {}) == read_config(REFERENCE, {})


def test_what_is_not_said_has_a_default() -> None:
    config = read_config(SMALL, {})
    assert config.planner == PlannerConfig(tool_descriptions=(ToolDescription(name="search"),))
    assert config.planner.use_function_calling is True
    assert config.gateway is None
    assert config.tool_choice("openai") == config.tool_choice("anthropic") == "auto"


def test_kind_and_metadata_may_stand_there_and_change_nothing() -> None:
    words = "apiVersion: v1\nkind: Agent\nmetadata: {name: analyst, labels: {team: data}}\n"
    assert read_config(words + SMALL, {}) == read_config(SMALL, {})
    assert read_config("apiVersion: 1\nkind:\nmetadata:\n" + SMALL, {}) == read_config(SMALL, {})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("search", "search"),
        ("{type: function, function: {name: search}}", "search"),
    ],
)
def test_every_tool_choice_of_the_reference_is_taken(written: str, meant: str) -> None:
    text = gateways(f"{{name: a, type: OpenAIGateway, config: {{model: m, tool_choice: {written}}}}}")
    assert read_config(text, {}).tool_choice("openai") == meant


@pytest.mark.parametrize("written", ["{type: function}", "{type: function, function: {name: 3}}", "'a tool'", "7"])
def test_a_tool_choice_that_is_none_is_refused(written: str) -> None:
    text = gateways(f"{{name: a, type: OpenAIGateway, config: {{model: m, tool_choice: {written}}}}}")
    assert "(resources.inference_gateways[0].config.tool_choice): " in refused(text)


def test_no_name_is_there_twice() -> None:
    twice = SMALL.replace("[{name: search}]", "[{name: search}, {name: search}]")
    assert "the tool 'search' is there twice" in refused(twice)


def test_the_environment_chooses_where_the_gateway_does_not() -> None:
    silent = gateways("{name: a, type: OpenAIGateway, config: {model: m}}")
    assert read_config(silent, {"OPENAI_TOOL_CHOICE": "required"}).tool_choice("openai") == "required"
    assert read_config(SMALL, {"OPENAI_TOOL_CHOICE": " none "}).tool_choice("openai") == "none"
    assert read_config(SMALL, {"OPENAI_TOOL_CHOICE": "none"}).tool_choice("anthropic") == "auto"
    assert read_config(SMALL, {"OPENAI_TOOL_CHOICE": ""}).tool_choice("openai") == "auto"
    said = gateways("{name: a, type: OpenAIGateway, config: {model: m, tool_choice: auto}}")
    assert read_config(said, {"OPENAI_TOOL_CHOICE": "required"}).tool_choice("openai") == "auto"


@pytest.mark.parametrize(("kind", "more"), [("OpenAIGateway", ", tool_choice: auto"), ("AnthropicGateway", "")])
def test_a_variable_that_says_nothing_here_may_name_another_agent_s_tool(kind: str, more: str) -> None:
    text = gateways(f"{{name: a, type: {kind}, config: {{model: m{more}}}}}")
    assert read_config(text, {"OPENAI_TOOL_CHOICE": "get_weather"}).tool_choice(kind[:-7].lower()) == "auto"  # type: ignore[arg-type]


def test_a_temperature_is_one_that_the_provider_takes() -> None:
    text = gateways("{name: a, type: AnthropicGateway, config: {model: m, temperature: 1.5}}")
    assert "(resources.inference_gateways[0]): temperature: Anthropic takes 0 to 1, not 1.5" in refused(text)
    assert read_config(text.replace("Anthropic", "OpenAI"), {}).gateway is not None


def test_the_process_s_own_environment_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_TOOL_CHOICE", "required")
    assert read_config(SMALL).tool_choice("openai") == "required"


def test_a_wrong_variable_is_refused() -> None:
    assert refused(SMALL, OPENAI_TOOL_CHOICE="a b") == (
        "OPENAI_TOOL_CHOICE has to be auto, required, none, or the name of a tool, not 'a b'"
    )


def test_the_first_gateway_is_the_default_and_a_planner_may_name_another() -> None:
    text = gateways(
        "{name: one, type: OpenAIGateway, config: {model: m}}",
        "{name: two, type: AnthropicGateway, config: {model: n}}",
    )
    config = read_config(text, {})
    assert config.gateway is not None
    assert config.gateway.name == "one"
    named = read_config(text.replace("[{name: search}]", "[{name: search}], inference_gateway: two"), {})
    assert named.gateway is not None
    assert (named.gateway.name, named.gateway.provider) == ("two", "anthropic")
    wrong = text.replace("[{name: search}]", "[{name: search}], inference_gateway: tow")
    assert "there is no gateway 'tow'; did you mean two?" in refused(wrong)


FAULTS = [
    ("ReActPlanner", "ReActPlaner", "it has to be 'ReActPlanner', not 'ReActPlaner'"),
    ("OpenAIGateway", "OpenAiGatway", "it has to be 'OpenAIGateway' or 'AnthropicGateway', not 'OpenAiGatway'"),
    ("system_prompt", "systemprompt", "there is no such field; did you mean system_prompt?"),
    ("max_parallel_tool_calls: 3", "max_parallel_tool_calls: 0", "it has to be greater than or equal to 1, not '0'"),
    ("max_parallel_tool_calls: 3", "max_parallel_tool_calls: '3'", "it has to be a valid integer, not '3'"),
    ("use_function_calling: true", 'use_function_calling: "yes"', "it has to be a valid boolean, not 'yes'"),
    ("max_parallel_tool_calls: 3", "max_parallel_tool_call: 3", "did you mean max_parallel_tool_calls?"),
    ('args: ["record_id"]', "args:", "it has to be a valid tuple, not 'None'"),
    ("name: search_database", "name: search database", "not 'search database'"),
    ("name: search_database", "title: search_database", "this field is missing"),
    ('["query", "limit"]', '["query", "a b"]', "not 'a b'"),
    ("model: gpt-4o-mini", "temperature: 3", "it has to be less than or equal to 2, not '3'"),
    ("model: gpt-4o-mini", "temperature: .nan", "it has to be a finite number, not 'nan'"),
    ("model: gpt-4o-mini", "base_url: localhost", "^https?://"),
    ("model: gpt-4o-mini", "api_key: sk-1", "there is no such field; did you mean api_key_env?"),
    ("resources:", "resource:", "there is no such field; did you mean resources?"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), FAULTS)
def test_what_is_wrong_is_said_with_its_place(right: str, wrong: str, words: str) -> None:
    line = REFERENCE[: REFERENCE.index(right)].count("\n") + 1
    told = refused(REFERENCE.replace(right, wrong, 1))
    assert words in told
    assert any(f"line {each}," in told for each in (line, line - 1)), told  # a missing field's object may begin before


def test_all_faults_are_told_and_ten_of_them_in_full() -> None:
    many = "".join(f"      wrong_{n}: 1\n" for n in range(15))
    told = refused(REFERENCE.replace("      system_prompt", f"{many}      system_prompt")).splitlines()
    assert len(told) == 11
    assert told[-1] == "and 5 more"
    assert told[0].startswith("the agent's configuration, line 16, column 7 (spec.planner.config.wrong_0): ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!python/object/apply:os.system ['true']\n", "could not determine a constructor for the tag"),
        ("a: 'x\n", "while scanning a quoted scalar"),
        ("a: &a [*a]\n", "there is no such field"),
        ("\n", "not 'None'"),
        ("- 1\n- 2\n", "not '[1, 2]'"),
    ],
)
def test_a_text_that_is_not_such_a_configuration_is_refused(text: str, words: str) -> None:
    assert words in refused(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_bytes(b"\xff\xfe\xfa")
    for path in (tmp_path / "nowhere.yaml", tmp_path, odd, "{spec: 1}"):
        with pytest.raises(ConfigurationError, match=f"{Path(path).name} cannot be read: "):
            read_config(path)


def test_without_pyyaml_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    assert refused(SMALL) == f"PyYAML, which reads YAML, is not installed: {how_to_install('agent')}"


def test_the_model_behind_a_gateway() -> None:
    pytest.importorskip("openai", reason="openai is not installed")
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    written = (
        "config: {model: m, api_key_env: MY_KEY, base_url: 'http://127.0.0.1:9', timeout_seconds: 5, max_retries: 0}"
    )
    for kind, provider in (("OpenAIGateway", "openai"), ("AnthropicGateway", "anthropic")):
        config = read_config(gateways(f"{{name: a, type: {kind}, {written}}}"), {})
        model = gateway_model(config, {"MY_KEY": "secret"})
        assert (model.name, model.provider) == ("m", provider)
        with pytest.raises(ConfigurationError, match=r"gateway 'a': the environment has no MY_KEY \(its key\)"):
            gateway_model(config, {})


def test_a_configuration_without_a_gateway_has_no_model() -> None:
    with pytest.raises(ConfigurationError, match="the configuration has no model"):
        gateway_model(AgentConfig(planner=PlannerConfig(tool_descriptions=())))
