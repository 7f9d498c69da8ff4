"""`callgate agent`: real commands, a played model behind real HTTP, or a recorded one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
import socket
import sqlite3
import sys
from pathlib import Path

import pytest

from callgate_bench.model.stand_in import Call, Move, Refusal, Turn
from cli.agents import OSLO, TOOLS, asked, playing, warm, with_key
from cli.command import Command

EXAMPLES = Path(__file__).parents[2] / "examples"
MONITORING = "List all compute metrics, query CPU usage, and check if it's above 80%"


@pytest.fixture
def cli(cli: Command) -> Command:
    return with_key(cli)


def recording(mode: str) -> Path:
    return EXAMPLES / "recordings" / f"monitoring_{mode}.jsonl"


# answers


def test_the_answer_is_alone_on_stdout_and_the_work_on_stderr(cli: Command) -> None:
    done = asked(cli, ["I will look.", OSLO], warm)
    assert (done.status, done.out) == (0, "4 degrees.\n")
    lines = done.err.splitlines()
    assert lines[0] == "task     How warm is Oslo?"
    assert "         I will look." in lines
    assert any(re.fullmatch(r'ok       get_weather\(city="Oslo"\)  [\d.]+ ms', line) for line in lines)
    assert re.fullmatch(r"answered 2 turns, 2 LLM calls, 1 tool call, [\d,]+ \+ [\d,]+ tokens, .*s", lines[-1])


def test_a_task_comes_from_stdin_too(cli: Command) -> None:
    with playing(lambda turn: f"You said: {turn.user.strip()}") as (_, model):
        assert cli("agent", "-", *model, stdin="How warm is Oslo?\n").out == "You said: How warm is Oslo?\n"


def test_json_is_the_whole_result_and_nothing_else(cli: Command) -> None:
    plan = {"steps": [{"id": "oslo", "tool": "get_weather", "arguments": {"city": "Oslo"}}]}
    done = asked(cli, Call("execute_tool_plan", plan), "4 degrees.", options=(*TOOLS, "--json", "--mode", "plan"))
    told = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert (told["ok"], told["outcome"], told["answer"]) == (True, "answered", "4 degrees.")
    assert (told["turns"], told["model_calls"], told["tool_calls"]) == (2, 2, 1)
    assert told["usage"]["input_tokens"] > 0
    (run,) = told["runs"]
    assert run["steps"][0]["arguments"] == {"city": "Oslo"}


@pytest.mark.parametrize(("mode", "calls"), [("declarative", 2), ("individual", 4)])
def test_the_monitoring_demo_replayed_shows_resolved_arguments_and_counts_the_llm_calls(
    cli: Command, mode: str, calls: int
) -> None:
    done = cli("agent", MONITORING, "--model", f"replay:{recording(mode)}", "--tools", str(EXAMPLES / "monitoring.py"),
               "--mode", mode)  # fmt: skip
    assert (done.status, done.out) == (0, "CPU usage is 72.5%, below the 80% threshold.\n")
    assert f"{calls} LLM calls, 3 tool calls" in done.err.splitlines()[-1]
    assert re.search(r'query_metric\(name="cpu_usage"\) +[\d.]+ ms', done.err)


def test_a_program_runs_in_the_sandbox_and_its_prints_are_shown(cli: Command) -> None:
    code = "w = await get_weather('Oslo')\nprint('it is', w.temp)\nn = 0\nwhile n < w.temp: n += 1\nn"
    done = asked(cli, Call("execute_code", {"code": code}), "4 degrees.", options=(*TOOLS, "--mode", "code"))
    assert (done.status, done.out) == (0, "4 degrees.\n")
    assert "prints   it is 4" in done.err
    assert '  call   get_weather(city="Oslo")' in done.err


@pytest.mark.slow
def test_what_tools_print_is_kept_out_of_stdout(cli: Command) -> None:
    done = asked(cli, Call("chatty"), "Done.")
    assert done.out == "Done.\n"
    assert "a tool's own print" in done.err


def test_system_prompt_and_strategic_plan_reach_the_model(cli: Command) -> None:
    (cli.folder / "system.txt").write_text("Be brief.")
    (cli.folder / "plan.json").write_text('{"phases": [{"worker": "weather", "goals": "one city"}]}')
    with playing("4 degrees.") as (api, model):
        done = cli("agent", "How warm?", *model, "--system", "@system.txt", "--strategic-plan", "plan.json")
    assert done.status == 0
    (request,) = api.requests
    assert "Be brief." in str(request["messages"][0])
    assert "STRATEGIC PLAN" in str(request["messages"][0])
    assert "weather" in str(request["messages"][0])


@pytest.mark.slow
def test_verbose_tells_requests_and_what_the_model_is_told(cli: Command) -> None:
    done = asked(cli, OSLO, warm, options=(*TOOLS, "--mode", "direct", "--verbose"))
    assert re.search(r"^asked    1 message; tools: .*get_weather", done.err, re.MULTILINE)
    assert re.search(r'^told     get_weather: {"temp": ?4}', done.err, re.MULTILINE)


# planners and discovery


@pytest.mark.slow
def test_a_react_planners_yaml_says_which_tools_there_are(cli: Command) -> None:
    (cli.folder / "planner.yaml").write_text(
        "spec:\n  planner:\n    type: ReActPlanner\n    config:\n      system_prompt: Be brief.\n"
        "      tool_descriptions:\n        - name: get_weather\n          description: Weather.\n"
        "          args:\n            - city\n"
    )

    def sees(turn: Turn) -> Move:
        assert set(turn.tools) == {"get_weather"}
        return OSLO

    done = asked(cli, sees, warm, options=(*TOOLS, "--planner", "planner.yaml"))
    assert (done.status, done.out) == (0, "4 degrees.\n"), done.err


def plans(turn: Turn) -> Move:
    """A model that takes the query apart, chooses the tool, and says what it gave."""
    choice = {
        "subQuery": "How warm is Oslo?",
        "tool": "get_weather",
        "parameters": {"city": "Oslo"},
        "confidence": 0.9,
    }
    if "**Sub-Queries**" in turn.user:
        return json.dumps({"reasoning": "One call tells.", "toolChain": [choice]})
    if turn.user.startswith("**Query**"):
        part = {"text": "How warm is Oslo?", "kind": "lookup", "confidence": 0.9, "dependsOn": []}
        return json.dumps({"queryType": "simple", "confidence": 0.9, "subQueries": [part]})
    assert "temp" in turn.user
    return "4 degrees."


PLANNED = (*TOOLS, "--planner", "tool", "--planning-seconds", "50")


@pytest.mark.slow
def test_the_tool_planner_takes_apart_plans_runs_and_puts_together(cli: Command) -> None:
    with playing(plans, plans, plans) as (api, model):
        line = ("agent", "How warm is Oslo?", *model, *PLANNED, "--transcript", "t.jsonl", "--statistics", "s.db")
        done = cli(*line)
    assert (done.status, done.out) == (0, "4 degrees.\n"), done.err
    assert len(api.requests) == 3, "taken apart, planned, put together"
    assert re.search(r"^planned  1 step in 1 stage, .*by the model", done.err, re.MULTILINE)
    assert re.search(r"^  ok     c0: get_weather", done.err, re.MULTILINE)
    kinds = [json.loads(line)["kind"] for line in (cli.folder / "t.jsonl").read_text().splitlines()]
    assert {"planned", "planned_run", "finished"} <= set(kinds)
    with contextlib.closing(sqlite3.connect(cli.folder / "s.db")) as kept:
        (learned,) = kept.execute("SELECT query, tools, success FROM selections").fetchall()
        (attempt,) = kept.execute("SELECT tool, outcome FROM attempts").fetchall()
    assert learned == ("How warm is Oslo?", '["get_weather"]', 1)
    assert attempt == ("get_weather", "succeeded")


@pytest.mark.slow
def test_system_prompt_and_strategic_plan_reach_the_answer_of_the_tool_planner(cli: Command) -> None:
    (cli.folder / "plan.json").write_text('{"phases": [{"worker": "weather", "goals": "one city"}]}')
    with playing(plans, plans, plans) as (api, model):
        done = cli("agent", "How warm?", *model, *PLANNED, "--system", "Be brief.", "--strategic-plan", "plan.json")
    assert (done.status, done.out) == (0, "4 degrees.\n"), done.err
    last = json.dumps(api.requests[-1]["messages"])
    assert "Be brief." in last
    assert "one city" in last


def test_a_recording_has_one_model_and_a_second_one_for_planning_is_refused(cli: Command) -> None:
    second = dataclasses.replace(cli, variables=cli.variables | {"TOOL_PLANNER_MODEL": "openai:other"})
    for options in (("--model", "openai:x", "--record", "r.jsonl"), ("--model", f"replay:{recording('individual')}")):
        done = second("agent", "How warm?", *options, *PLANNED, "--mode", "plan")
        assert (done.status, done.out) == (2, "")
        assert "TOOL_PLANNER_MODEL" in done.error
    assert not (cli.folder / "r.jsonl").exists()


def test_a_tool_choice_holds_until_a_tool_was_called_and_comes_from_the_environment_too(cli: Command) -> None:
    required = dataclasses.replace(cli, variables=cli.variables | {"OPENAI_TOOL_CHOICE": "required"})
    named = {"type": "function", "function": {"name": "get_weather"}}
    for command, flags, sent in (
        (cli, ("--tool-choice", "get_weather"), named), (required, (), "required"),
        (required, ("--tool-choice", "get_weather"), named),
    ):  # fmt: skip
        with playing(OSLO, warm) as (api, model):
            done = command("agent", "How warm is Oslo?", *model, *TOOLS, "--mode", "direct", *flags)
        assert (done.status, done.out) == (0, "4 degrees.\n"), done.err
        assert [request.get("tool_choice", "auto") for request in api.requests] == [sent, "auto"]


def test_tools_of_mcp_servers_are_offered(cli: Command) -> None:
    server = Path(__file__).parent.parent / "with_mcp" / "servers" / "everything.py"
    servers = {"good": {"command": sys.executable, "args": [str(server)]}}
    (cli.folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    options = ("--mcp", "servers.json", "--mode", "direct")
    done = asked(cli, Call("good_add", {"a": 1, "b": 2}), lambda turn: f"It is {turn.answer}.", options=options)
    assert (done.status, done.out) == (0, 'It is {"result":3}.\n'), done.err


@pytest.mark.slow
def test_found_tools_are_shown_to_an_agent_made_anew_where_discovery_interrupts(cli: Command) -> None:
    def finds(turn: Turn) -> Move:
        assert "get_weather" not in turn.tools
        return Call("search_tools", {"query": "weather"})

    def calls(turn: Turn) -> Move:
        assert "get_weather" in turn.tools
        return OSLO

    options = (*TOOLS, "--mode", "direct", "--discovery", "interrupt", "--transcript", "t.jsonl")
    done = asked(cli, finds, calls, warm, options=options)
    assert (done.status, done.out) == (0, "4 degrees.\n"), done.err
    assert "found    get_weather" in done.err
    assert "3 turns, 3 LLM calls" in done.err.splitlines()[-1]
    kinds = [json.loads(line)["kind"] for line in (cli.folder / "t.jsonl").read_text().splitlines()]
    assert "resumed" in kinds
    assert kinds[-1] == "finished"


# approval


def test_without_a_terminal_the_answer_is_no_and_yes_approves_every_call(cli: Command) -> None:
    def told(turn: Turn) -> Move:
        return turn.answer

    wipe = Call("wipe", {"table": "orders"})
    assert "--yes" in asked(cli, wipe, told).out
    assert asked(cli, wipe, told, options=(*TOOLS, "--mode", "direct", "--yes")).out == "wiped orders\n"


# what goes wrong


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        ([], "there is no model", "--model openai:NAME"),
        (["--model", "openai:x"], "there is no task", "callgate agent"),
        (["  ", "--model", "openai:x"], "the task is empty", "say what"),
        (
            ["do", "--model", "openai:x", "--max-turns", "0"],
            "turns cannot be 0: input should be greater than 0",
            "--help",
        ),
        (
            ["do", "--model", "openai:x", "--seconds", "nan"],
            "seconds cannot be nan: input should be a finite number",
            "--help",
        ),
        (
            ["do", "--model", "openai:x", "--price", "cheap"],
            "--price 'cheap' is not a pair of numbers",
            "--price 1.25,10",
        ),
        (["do", "--model", "openai:x", "--mode", "magic"], "'magic' is not one of", "--help"),
        (["do", "--model", "openai:x", "--planner", "x.txt"], "neither `tool` nor a .yaml file", "--planner tool"),
        (["do", "--planner", "p.yaml", "--tool-choice", "none"], "not for a planner's file", "gateway of p.yaml"),
        (["do", "--planner", "p.yaml", "--base-url", "http://x/v1"], "--base-url is for --model", "gateway of p.yaml"),
        (["do", "--planner", "p.yaml", "--mode", "code"], "--mode is code", "leave out --mode"),
        (["do", "--planner", "p.yaml", "--discovery", "none"], "searches none", "leave out --discovery"),
        (["do", "--model", "openai:x", "--mode", "plan", "--tool-choice", "nil"], "tool_choice is 'nil'", "--help"),
        (["do", "--model", "openai:x", "--planning-seconds", "9"], "is for the tool planner", "--planner tool"),
        (["do", "--model", "openai:x", "--system", "@absent"], "absent cannot be read", "system prompt"),
        (["do", "--model", "openai:x", "--strategic-plan", "tools.py"], "tools.py is not JSON", "any JSON value"),
        (["do", "--model", "openai:x", "--transcript", "tools.py"], "is there already", "--resume tools.py"),
        (["do", "--model", "openai:x", "--resume", "t.jsonl"], "there are two tasks", "leave out the task"),
        (["--model", "openai:x", "--resume", "t.jsonl"], "there is no such file", "--transcript wrote"),
        (["--model", "openai:x", "--resume", "tools.py"], "not a line of a transcript", "--help"),
        (["do", "--model", "openai:"], "a model has to be named", "--help"),
        (["do", "--model", "replay:absent.jsonl"], "absent.jsonl", "--help"),
        (["do", "--model", "openai:x", "--planner", "absent.yaml"], "absent.yaml", "--help"),
        (
            ["do", "--model", "openai:x", "--max-cost", "1", "--mode", "plan"],
            "that of 'x' is not known",
            "--price IN,OUT",
        ),
        (["do", "--model", "openai:", "--max-cost", "1"], "a model has to be named", "--help"),
        (["do", "--model", "openai:x", "--mode", "plan", "--image", "x"], "image is for sandbox='docker'", "--help"),
    ],
)
def test_usage_errors_exit_with_2_and_say_what_to_write(
    cli: Command, arguments: list[str], error: str, tip: str
) -> None:
    done = cli("agent", *arguments)
    assert (done.status, done.out) == (2, "")
    assert error in done.error
    assert tip in done.tip


def test_without_a_key_it_says_which_variable_to_set(cli: Command) -> None:
    keyless = dataclasses.replace(cli, variables={})
    for model, variable in (("openai:gpt-5", "OPENAI_API_KEY"), ("claude-x", "ANTHROPIC_API_KEY")):
        done = keyless("agent", "do", "--model", model, "--mode", "plan")
        assert done.status == 2
        assert variable in done.error


def test_without_the_extra_it_says_what_to_install(cli: Command) -> None:
    (cli.folder / "hidden").mkdir()
    (cli.folder / "hidden" / "sitecustomize.py").write_text("import sys\nsys.modules['openai'] = None\n")
    hidden = {"PYTHONPATH": str(cli.folder / "hidden")}
    done = cli("agent", "do", "--model", "openai:x", "--mode", "plan", environment=hidden)
    assert done.status == 2
    assert done.error.startswith("the SDK openai is not installed: pip install ")
    assert done.error.endswith("[agent]'")


@pytest.mark.slow
def test_a_key_or_a_name_that_the_endpoint_refuses_is_a_usage_error(cli: Command) -> None:
    wrong = dataclasses.replace(cli, variables={"OPENAI_API_KEY": "sk-wrong-wrong-wrong"})
    done = asked(wrong, "never")
    assert done.status == 2
    assert "the model's endpoint will not take the request" in done.error
    assert "OPENAI_API_KEY" in done.tip
    assert "sk-wrong" not in done.err


@pytest.mark.slow
def test_an_endpoint_that_is_not_there_exits_with_1_and_says_how_to_go_on(cli: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    options = ("--base-url", f"http://127.0.0.1:{port}/v1", *TOOLS, "--mode", "direct", "--transcript", "t.jsonl")
    done = cli("agent", "do", "--model", "openai:x", *options)
    assert (done.status, done.out) == (1, "")
    assert "no connection to the model" in done.error
    assert "fault    unavailable" in done.err
    assert done.err.splitlines()[-1].startswith(
        "to go on: callgate agent --resume t.jsonl --model openai:x --base-url "
    )


@pytest.mark.slow
def test_a_model_that_is_none_of_an_endpoint_gets_a_tip_of_its_own(cli: Command) -> None:
    with playing(OSLO, warm) as (_, model):
        assert cli("agent", "How warm?", *model, *TOOLS, "--mode", "direct", "--record", "r.jsonl").status == 0
    other = cli("agent", "How cold?", "--model", "replay:r.jsonl", *TOOLS, "--mode", "direct")
    assert other.status == 2
    assert "the recording does not fit: the recording has no reply" in other.error
    assert "the tools of the recording; --record FILE" in other.tip
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gone = cli("agent", "do", "--model", "ollama:x", "--base-url", f"http://127.0.0.1:{port}/v1", *TOOLS)
    assert (gone.status, "ollama serve" in gone.tip) == (1, True)
    reason = gone.error.partition("no connection to the model")[2]
    assert gone.err.count(reason) == 2  # in the line of the fault, and in that of the error


@pytest.mark.slow
def test_a_refusal_and_silence_exit_with_1(cli: Command) -> None:
    done = asked(cli, Refusal("I will not."))
    assert (done.status, done.out) == (1, "")
    assert "the model refused" in done.error
    silent = asked(cli, "", "", "", "", "", "")
    assert silent.status == 1
    assert "said nothing" in silent.error


@pytest.mark.slow
@pytest.mark.parametrize("bound", [("--max-tokens", "100"), ("--max-cost", "0.0001")])
def test_a_budget_that_is_spent_exits_with_4_and_what_it_says_goes_on(cli: Command, bound: tuple[str, str]) -> None:
    flag, _ = bound
    with playing(OSLO, "It is warm.") as (_, model):
        options = (*TOOLS, "--mode", "direct", "--price", "1,1", *bound, "--transcript", "t.jsonl")
        done = cli("agent", "How warm?", *model, *options)
        assert (done.status, done.out) == (4, ""), done.err
        assert "the budget is spent" in done.error
        more = re.findall(rf"raise it with {flag} ([\d.]+),", done.tip)
        again = shlex.split(done.err.splitlines()[-1].removeprefix("to go on: "))
        assert again[:4] == ["callgate", "agent", "--resume", "t.jsonl"]
        assert again[-2:] == [flag, *more]
        assert again.count(flag) == 1
        assert cli(*again[1:]).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "status", "answer"), [("auto", 0, "4 degrees.\n"), ("code", 3, "")])
def test_without_a_sandbox_auto_goes_on_without_programs_and_code_ends(
    cli: Command, mode: str, status: int, answer: str
) -> None:
    def sees(turn: Turn) -> Move:
        assert "execute_code" not in turn.tools
        assert "execute_tool_plan" in turn.tools
        return "4 degrees."

    with playing(sees) as (_, model):
        done = cli.without_namespaces("agent", "How warm?", *model, *TOOLS, "--mode", mode, "--tier", "1")
    assert (done.status, done.out) == (status, answer), done.err
    assert ("WARNING programs are not offered" in done.err) == (mode == "auto")
