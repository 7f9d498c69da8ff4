"""A tool: a host function with a contract. Knows how a tool is declared and what its options mean.

Does not know who calls the tool, when, and whether they may: the gate does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack, overload

from callgate.errors import ConfigurationError

from .names import check_name, spellings
from .retry import Retry
from .turns import Work

if TYPE_CHECKING:
    # imported with the first tool: pydantic and jsonschema_rs are slow to import
    from .annotations import Arguments, Encoded, TypedResult, UntypedResult
    from .json_schema import SchemaResult
    from .secret import SecretPlace
    from .signature import Docs, Signature

__all__ = ["CALLERS", "DETAILS", "Caller", "Detail", "Tool", "ToolOptions", "tool"]

Caller = Literal["direct", "code", "plan"]
"""Who calls: the model itself, a program, or a plan."""
CALLERS: tuple[Caller, ...] = ("direct", "code", "plan")
Detail = Literal["names", "signatures", "full"]
"""How much a listing says about each tool. ``names``: its name. ``signatures``: its types and the first line of its
description. ``full``: all descriptions, of the tool, its arguments and the keys of its types."""
DETAILS: tuple[Detail, ...] = ("names", "signatures", "full")


class ToolOptions(TypedDict, total=False):
    """The options of `Tool`, for functions that pass them on."""

    read_only: bool
    idempotent: bool
    destructive: bool
    allowed_callers: Sequence[Caller]
    timeout_seconds: float | None
    retry: Retry | None
    fallback: str | None
    cache_seconds: float | None
    requires_approval: bool
    cost: float | str | None
    category: str | None
    capabilities: Sequence[str]
    limitations: Sequence[str]
    examples: Sequence[Any]


class Places(Protocol):
    """A semaphore, such as `anyio.Semaphore`."""

    async def acquire(self) -> None: ...

    def release(self) -> None: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """A host function with its schemas and options.

    Made by `tool`, `Tool.from_function` or `Tool.from_schema`.

    Raises:
        ConfigurationError: an option is wrong or contradicts another.
    """

    name: str
    """The name on the wire and for the model; any printable text."""
    description: str
    """What the tool does, for the model."""
    function: Callable[..., Any]
    """Called with keyword arguments; sync ones run in a worker thread."""
    is_async: bool
    """Whether calling `function` gives a coroutine."""
    input_contract: Arguments = field(repr=False)
    result_contract: TypedResult | SchemaResult | UntypedResult = field(repr=False)

    read_only: bool = False
    """Changes nothing: may be retried, cached, and called earlier than written."""
    idempotent: bool = False
    """A second call with the same arguments changes nothing more: may be retried."""
    destructive: bool = False
    """May destroy data for good; a hint for people and approval."""
    allowed_callers: tuple[Caller, ...] = CALLERS
    """Who may call it; empty means nobody."""
    timeout_seconds: float | None = None
    """Seconds one attempt may take. None: the run's default (30 s for plans; for code, the run's wall limit alone)."""
    retry: Retry | None = None
    """How failed calls are tried again. None: not at all; in a plan, 3 attempts for read-only and idempotent tools."""
    fallback: str | None = None
    """Name of a tool that is called with the same arguments when this one has failed."""
    cache_seconds: float | None = None
    """Seconds for which a result is reused; read-only tools only. Identical calls at the same time run once."""
    requires_approval: bool = False
    """Whether a person (the runtime's `approve` callback) is asked before each call."""
    cost: float | str | None = None
    """Cost of a call, in the operator's own unit; shown to planners."""
    category: str | None = None
    capabilities: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()
    examples: tuple[Any, ...] = ()
    server: str | None = None
    """The server it was imported from; programs also call it as ``server.tool(...)``. None: the host's own."""
    server_tool: str | None = None
    """Its own name on that server, any text; `name` unless given."""
    places: Places | None = field(default=None, repr=False)
    """Bounds the calls that run at the same time, together with other tools that have the same object; the tools of an
    MCP server have one. None: the run's `max_concurrent_calls` alone. Sync tools share a runtime's 40 threads."""

    waits_its_turn: bool = field(default=False, repr=False)
    """Begins when its caller comes to it, never earlier: an agent's task costs money, also where nothing uses it."""

    input_schema: dict[str, Any] = field(init=False, repr=False)
    """JSON Schema of the arguments: an object."""
    output_schema: dict[str, Any] | None = field(init=False, repr=False)
    """JSON Schema of the result; None if the tool has none."""
    parameters: tuple[str, ...] = field(init=False)
    """Names of the arguments, in positional order."""
    spellings: Mapping[str, str] = field(init=False, repr=False)
    """How programs write arguments whose names are not Python names: see `callgate.tools.names.spellings`."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for derived, value in (
            ("input_schema", self.input_contract.schema),
            ("output_schema", self.result_contract.schema),
            ("parameters", self.input_contract.names),
            ("spellings", spellings(self.input_contract.names)),
        ):
            object.__setattr__(self, derived, value)
        for listed in ("allowed_callers", "capabilities", "limitations", "examples"):
            value = getattr(self, listed)
            if isinstance(value, str):
                raise ConfigurationError(f"tool {self.name!r}: {listed} must be a list, not the string {value!r}")
            object.__setattr__(self, listed, tuple(value))
        self._check()
        if self.server is not None and self.server_tool is None:
            object.__setattr__(self, "server_tool", self.name)
        for attribute in ("__name__", "__doc__"):  # for `help` and `inspect.signature`
            object.__setattr__(self, attribute, getattr(self.function, attribute, None))
        object.__setattr__(self, "__wrapped__", self.function)

    def respelled(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A program's arguments under the tool's own names: ``from_`` becomes ``from``, unless both are given."""
        own = self.spellings
        return {name if own.get(name, name) in arguments else own[name]: value for name, value in arguments.items()}

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """A tool from a function's signature, annotations and docstring.

        Args:
            function: sync or async; a bound method, a partial or a callable object will do.
            name: instead of the function's own.
            description: instead of the docstring's.
            options: the fields of `Tool`.

        Raises:
            ConfigurationError: the function cannot be described to a model, or an option is wrong.
        """
        if isinstance(function, Tool):
            raise ConfigurationError(f"{function.name!r} is a tool already")
        from .annotations import FunctionArguments, UntypedResult
        from .signature import NOTHING, is_async_callable, read_signature

        if name is not None:
            check_name(name)
        signature = read_signature(function, name)
        untyped = signature.returns is NOTHING
        return cls(
            name=signature.name,
            description=_described(signature.docs, untyped) if description is None else description,
            function=function,
            is_async=is_async_callable(function),
            input_contract=FunctionArguments(signature.name, signature.parameters, signature.docs.parameters),
            result_contract=UntypedResult() if untyped else _result_of(signature),
            **_options(options),
        )

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        input_schema: dict[str, Any],
        function: Callable[..., Any],
        *,
        output_schema: dict[str, Any] | None = None,
        server: str | None = None,
        server_tool: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """A tool from a plain JSON Schema and a callable.

        Args:
            name: the tool's name.
            description: what it does, for the model.
            input_schema: JSON Schema of the arguments, of type object; copied.
            function: sync or async; called as `function(**arguments)`, also with names that are not identifiers.
            output_schema: JSON Schema that every result must fit; copied.
            server: the server that the tool was imported from.
            server_tool: the tool's own name on that server.
            options: the fields of `Tool`.

        Raises:
            ConfigurationError: a schema is invalid, too large, or refers to another document; an option is wrong.
        """
        check_name(name)
        if not callable(function):
            raise ConfigurationError(f"tool {name!r}: {function!r} cannot be called")
        from .annotations import UntypedResult
        from .json_schema import SchemaArguments, SchemaResult
        from .signature import is_async_callable

        return cls(
            name=name,
            description=description,
            function=function,
            is_async=is_async_callable(function),
            input_contract=SchemaArguments(name, input_schema),
            result_contract=UntypedResult() if output_schema is None else SchemaResult(name, output_schema),
            server=server,
            server_tool=server_tool,
            **_options(options),
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, past the gate: for tests and for other host code."""
        return self.function(*args, **kwargs)

    @property
    def repeatable(self) -> bool:
        """Whether a second call is harmless."""
        return self.read_only or self.idempotent

    @property
    def may_begin_early(self) -> bool:
        """Whether a call is harmless that nothing may ever use."""
        return self.read_only and not self.requires_approval and not self.waits_its_turn

    @cached_property
    def secret_arguments(self) -> SecretPlace | None:
        """Which arguments are secrets, as the input schema says; None if it names none."""
        from .secret import secret_place

        return secret_place(self.input_schema)

    @cached_property
    def secret_result(self) -> SecretPlace | None:
        """Which parts of a result are secrets, as the output schema says; None if it names none."""
        from .secret import secret_place

        return secret_place(self.output_schema)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A checked copy of the call's keyword arguments, with nested models built.

        Raises:
            InvalidArguments: names every fault: which argument, what was expected, what was given.
        """
        return self.input_contract.validate(self.name, arguments)

    def validating(self, arguments: dict[str, Any]) -> Work[dict[str, Any]]:
        """`validate` in turns, for large arguments. Raises `InvalidArguments`."""
        return self.input_contract.validating(self.name, arguments)

    def copied(self, arguments: dict[str, Any], *, large: bool) -> dict[str, Any] | None:
        """`validate` for arguments that are JSON values for sure; None if only `validate` can tell."""
        return self.input_contract.copied(arguments, large=large)

    def encode(self, result: Any) -> str:
        """The result as compact JSON text.

        Raises:
            ToolError: the tool broke its own contract: the result is not JSON or does not fit the output schema.
        """
        return self.result_contract.encode(self.name, result)

    def encoding(self, result: Any) -> Work[Encoded]:
        """`encode` in turns, for a large result. Raises `ToolError`."""
        return self.result_contract.encoding(self.name, result)

    def invoke(self, arguments: dict[str, Any]) -> Any:
        """Call the function with the arguments that `validate` returned, positional-only ones included.

        An iterator that a sync function returns is read to its end: its work is part of the call.
        """
        result = self._called(arguments)
        return list(result) if hasattr(type(result), "__next__") else result

    def _called(self, arguments: dict[str, Any]) -> Any:
        names = self.input_contract.positional_only
        if not names:
            return self.function(**arguments)
        given = dict(arguments)
        positional = []
        for name in names:
            if name not in given:
                break
            positional.append(given.pop(name))
        return self.function(*positional, **given)

    def named(self, name: str) -> Tool:
        """The tool under another name."""
        return replace(self, name=name)

    def _check(self) -> None:
        for option in ("timeout_seconds", "cache_seconds"):
            value = getattr(self, option)
            if value is None:
                continue
            if type(value) not in (int, float) or not 0 < value < math.inf:
                raise ConfigurationError(f"tool {self.name!r}: {option} must be a number above 0, not {value!r}")
        unknown = [caller for caller in self.allowed_callers if caller not in CALLERS]
        if unknown:
            raise ConfigurationError(
                f"tool {self.name!r}: there is no caller {unknown[0]!r}; the callers are: {', '.join(CALLERS)}"
            )
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise ConfigurationError(
                f"tool {self.name!r}: retry must be a Retry, e.g. Retry(attempts=3), not {self.retry!r}"
            )
        if self.cache_seconds is not None and not self.read_only:
            raise ConfigurationError(f"tool {self.name!r}: cache_seconds needs read_only=True")
        if self.read_only and self.destructive:
            raise ConfigurationError(f"tool {self.name!r} cannot be both read_only and destructive")
        if self.server is not None:
            check_name(self.server, "a server's name")
        elif self.server_tool is not None:
            raise ConfigurationError(f"tool {self.name!r}: server_tool needs a server")
        if self.fallback is not None and self.fallback in ("", self.name):
            raise ConfigurationError(
                f"tool {self.name!r}: fallback must be the name of another tool, not {self.fallback!r}"
            )


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, or `@tool(read_only=True)`. The tool is still called like the function.

    Args:
        function: sync or async; its signature, annotations and docstring describe it to the model.
        name: instead of the function's own.
        description: instead of the docstring's.
        options: the fields of `Tool`.

    Raises:
        ConfigurationError: the function cannot be described to a model, or an option is wrong.
    """
    if function is not None:
        return Tool.from_function(function, name=name, description=description, **options)
    return lambda inner: Tool.from_function(inner, name=name, description=description, **options)


def _result_of(signature: Signature) -> TypedResult | SchemaResult:
    """The contract of an annotated result."""
    from .annotations import TypedResult

    typed = TypedResult(signature.name, signature.returns, signature.docs.returns)
    if not typed.holds_artifacts:
        return typed
    from .json_schema import SchemaResult

    return SchemaResult(signature.name, typed.schema)


def _described(docs: Docs, untyped: bool) -> str:
    """The description. It includes `Returns:` if there is no output schema, or no other description."""
    returns = f"Returns: {docs.returns}" if docs.returns and (untyped or not docs.description) else ""
    return "\n\n".join(filter(None, (docs.description, returns)))


def _options(options: ToolOptions) -> dict[str, Any]:
    unknown = [name for name in options if name not in ToolOptions.__annotations__]
    if unknown:
        known = ", ".join(sorted(ToolOptions.__annotations__))
        raise ConfigurationError(f"there is no option {unknown[0]!r}; the options of a tool are: {known}")
    return dict(options)
