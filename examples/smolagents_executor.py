"""smolagents' CodeAgent with callgate as its executor: the agent's programs run in the sandbox, its tools on the host.

`LocalPythonExecutor`, the default, runs programs in the agent's own process. `CallgateExecutor` takes its place, in one
line, and the programs stay as smolagents' prompt asks for them: no `await`, variables that live on from step to step,
`final_answer(...)`. Tools keep running here, with your credentials; values cross as JSON. The model follows a script.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from callgate import SyncRuntime, Tool
from callgate.runtime import SyncSession
from needs import needs

with needs(None, "smolagents"):
    from smolagents import ChatMessage, CodeAgent, LogLevel, MessageRole, Model, tool
    from smolagents.local_python_executor import CodeOutput, PythonExecutor

PLAIN = """
def {name}(*args, _call={name}, **kwargs):
    return _call(*args, **kwargs)
"""
"""Takes the place of a tool in programs: in a plain function, a tool's call waits by itself."""
FINAL_ANSWER = """
def final_answer(*args, **kwargs):
    give_final_answer(*args, **kwargs)
    raise SystemExit
"""
NAMES = {"final_answer": "give_final_answer"}
"""callgate's names for tools of smolagents whose names are reserved."""


class CallgateExecutor(PythonExecutor):  # type: ignore[misc]
    """Runs the programs of a `CodeAgent` in one session of callgate: ``CodeAgent(..., executor=CallgateExecutor())``.

    The session begins with the agent's first run, and ends with `CodeAgent.cleanup`, or ``with agent:``. If a program
    reaches a limit, its process ends; the next program gets a new session, without the variables of the earlier ones.
    Tools and agents that return pictures or audio are not for programs here: values are JSON. Programs read why a tool
    failed where it raises callgate's `ToolError`; of other exceptions the text stays in the host's log.

    Args:
        ask: names of tools whose calls need an approval: `approve` is asked.
        options: of `SyncRuntime`: `limits`, `sandbox`, `packages`, `approve`, ...
    """

    def __init__(self, *, ask: Collection[str] = (), **options: Any) -> None:
        self.state: dict[str, Any] = {}
        """What smolagents shows of a program that failed: ``_print_outputs``."""
        self._ask = ask
        self._options = options
        self._tools: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}
        self._runtime: SyncRuntime | None = None
        self._session: SyncSession | None = None
        self._answer: list[Any] = []

    def send_tools(self, tools: dict[str, Any]) -> None:
        """The tools of the agent's programs. Others than before begin a new session."""
        if self._runtime is not None and tools == self._tools:
            return
        self.cleanup()
        self._tools = dict(tools)
        known = [self._tool(name, each) for name, each in tools.items()]
        self._runtime = SyncRuntime(known, **self._options).open()

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Variables of the next program, as JSON values."""
        self._variables.update(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Run a program. Raises `RuntimeError` with the program's error."""
        if self._runtime is None:
            self.send_tools({})
        assert self._runtime is not None
        if self._session is None or not self._session.alive:
            self._session = self._runtime.session().__enter__()
            plain = [PLAIN.format(name=name) for name in self._runtime.registry.names()]
            plain += [FINAL_ANSWER] if "final_answer" in self._tools else []
            prepared = self._session.execute_code("".join(plain))
            assert prepared.ok, prepared.error
        self._answer.clear()
        run = self._session.execute_code(code_action, inputs=self._variables)
        self._variables = {}
        self.state["_print_outputs"] = run.logs
        if self._answer:
            return CodeOutput(output=self._answer[0], logs=run.logs, is_final_answer=True)
        if run.error is not None:
            raise RuntimeError(run.error.traceback.strip() or f"{run.error.kind}: {run.error.message}")
        value = run.value if run.value_repr is None else run.value_repr
        return CodeOutput(output=value, logs=run.logs, is_final_answer=False)

    def cleanup(self) -> None:
        """End the session and the runtime."""
        if self._runtime is not None:
            self._runtime.close()
        self._runtime = self._session = None

    def _tool(self, name: str, given: Any) -> Tool:
        """A tool or an agent of smolagents as a tool of callgate."""
        properties = {each: _schema(schema) for each, schema in given.inputs.items()}
        required = [each for each, schema in given.inputs.items() if not schema.get("nullable")]
        schema = {"type": "object", "properties": properties, "required": required}

        def call(**arguments: Any) -> Any:
            value = given(**arguments)
            if name == "final_answer":
                self._answer.append(value)
            return value

        known_as = NAMES.get(name, name)
        return Tool.from_schema(known_as, given.description, schema, call, requires_approval=name in self._ask)


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter of smolagents as JSON Schema."""
    types = [given["type"]] if isinstance(given["type"], str) else list(given["type"])
    types += ["null"] if given.get("nullable") else []
    described: dict[str, Any] = {"description": given.get("description", "")}
    return described if "any" in types else {**described, "type": types}


# the example

PRICES = {"tea": 4.5, "cup": 12.0}


@tool  # type: ignore[untyped-decorator]
def price_of(product: str) -> float:
    """Price of a product, in euros.

    Args:
        product: the product's name.
    """
    return PRICES[product]


class Scripted(Model):  # type: ignore[misc]
    """Plays a model: the text of each turn."""

    def __init__(self, *said: str) -> None:
        super().__init__(model_id="scripted")
        self.said = list(said)

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=self.said.pop(0))


SAID = (
    "I ask for the prices.\n<code>\nprices = {each: price_of(each) for each in ('tea', 'cup')}\nprint(prices)\n</code>",
    "I look at the host.\n<code>\nprint(open('/etc/passwd').read())\n</code>",
    "That is not there. I add up.\n<code>\nfinal_answer(sum(prices.values()))\n</code>",
)


def main() -> None:
    model = Scripted(*SAID)
    with CodeAgent([price_of], model, executor=CallgateExecutor(), verbosity_level=LogLevel.OFF) as agent:
        answer = agent.run("What do a tea and a cup cost together?")
        first, second, _ = agent.memory.steps[1:]
    assert answer == 16.5
    assert "'tea': 4.5" in first.observations
    assert "FileNotFoundError" in second.error.message
    print(f"the host's files are not there: {second.error.message.splitlines()[-1]}")
    print(f"the answer: {answer}")


if __name__ == "__main__":
    main()
