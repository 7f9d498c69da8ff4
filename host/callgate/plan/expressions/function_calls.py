"""Compile calls of the listed functions and methods to closures.

A function is found by its name in the text; a value is never called. That keeps the list closed. Functions that take a
function (`key=`, `map`, `filter`) get a lambda, a listed function or `str.method`, written in place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from callgate.tools.faults import did_you_mean

from .budget import Budget
from .compilation import Compilation, Node, Scope
from .comprehensions import generator
from .functions import FUNCTIONS
from .kinds import ITERATORS, KNOWN, SIZED, foreign, known
from .methods import METHOD_KEYWORDS, METHODS, REFUSED_METHODS
from .nodes import check_attribute_name, field_of, items_of

__all__ = ["CALL_BUILDERS"]

_STEPS_PER_ARGUMENT: Final = 8
_BYTES_PER_ARGUMENT: Final = 400
"""Memory that a function takes for each argument from `*`, at most: `zip` and `map` keep two iterators."""
_FUNCTION_HINT: Final = "write a lambda, like lambda row: row.name, or a listed function, like len or str.lower"


def _call(compilation: Compilation, node: ast.Call) -> Node:
    function = node.func
    if isinstance(function, ast.Name):
        if compilation.is_variable(function.id):
            hint = "only the listed functions can be called"
            raise compilation.fault(node, f"`{function.id[:80]}` is a value here and cannot be called", hint)
        if function.id not in FUNCTIONS:
            raise compilation.unknown_function(node, function.id)
        return _function_call(compilation, node, function.id)
    if isinstance(function, ast.Attribute):
        name = _function_of_module(compilation, function)
        return _function_call(compilation, node, name) if name else _method_call(compilation, node, function)
    hint = "call a listed function or a method by its name"
    raise compilation.fault(node, "the result of an expression cannot be called", hint)


def _function_of_module(compilation: Compilation, function: ast.Attribute) -> str | None:
    """Return ``"json.dumps"`` or another listed function of `json`; None for a method call."""
    owner = function.value
    if isinstance(owner, ast.Name) and owner.id == "json" and not compilation.is_variable("json"):
        name = f"json.{function.attr}"
        if name in FUNCTIONS:
            return name
        if function.attr not in METHODS:
            raise compilation.unknown_function(function, name)
    return None


# Functions


def _function_call(compilation: Compilation, node: ast.Call, name: str) -> Node:
    listed = FUNCTIONS[name]
    compilation.functions.add(name.partition(".")[0])
    compilation.size += 1  # a call takes as long as two other nodes
    arguments, first = node.args, None
    if listed.takes_function == "first" and arguments:
        if isinstance(arguments[0], ast.Lambda) and any(isinstance(argument, ast.Starred) for argument in arguments):
            hint = "write the arguments out, so that the lambda's parameters can be counted"
            raise compilation.fault(node, f"`*` in the arguments of `{name}` with a lambda is not supported", hint)
        first = _function_argument(compilation, arguments[0], len(arguments) - 1)
        arguments = arguments[1:]
    arguments_of = _arguments(compilation, arguments, name)
    keywords = _keywords(compilation, node, name, listed.keywords, functions=listed.takes_function == "key")
    call = listed.call

    def run(budget: Budget, scope: Scope) -> Any:
        given = arguments_of(budget, scope) if first is None else [first(budget, scope), *arguments_of(budget, scope)]
        options = {keyword: value_of(budget, scope) for keyword, value_of in keywords} if keywords else {}
        return known(call(budget, given, options))

    return run


def _function_argument(compilation: Compilation, node: ast.expr, arity: int) -> Node:
    """Compile an argument that is a function: a lambda, a listed function, ``str.method`` or None."""
    compilation.size += 1
    if isinstance(node, ast.Constant) and node.value is None:
        return lambda budget, scope: None
    if isinstance(node, ast.Lambda):
        return _lambda(compilation, node, arity)
    if isinstance(node, ast.Name) and not compilation.is_variable(node.id):
        listed = FUNCTIONS.get(node.id)
        if listed is None:
            raise compilation.fault(node, f"`{node.id[:80]}` is not a listed function", _FUNCTION_HINT)
        compilation.functions.add(node.id)
        return _counted(listed.call)
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "str"
        and not compilation.is_variable("str")
        and str in METHODS.get(node.attr, ())
    ):
        method, native = METHODS[node.attr][str], str.__dict__[node.attr]
        compilation.functions.add("str")

        def of_text(budget: Budget, arguments: list[Any], options: dict[str, Any]) -> Any:
            if not arguments or type(arguments[0]) is not str:
                return native(*arguments)  # raises, in Python's words
            return method(budget, arguments[0], arguments[1:], options)

        return _counted(of_text)
    raise compilation.fault(node, "a function must be written in place here", _FUNCTION_HINT)


def _counted(call: Callable[[Budget, list[Any], dict[str, Any]], Any]) -> Node:
    def make(budget: Budget, scope: Scope) -> Any:
        def function(*arguments: Any) -> Any:
            budget.work(2)
            return known(call(budget, list(map(known, arguments)), {}))

        return function

    return make


def _lambda(compilation: Compilation, node: ast.Lambda, arity: int) -> Node:
    given = node.args
    names = [parameter.arg for parameter in given.args]
    if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults or len(names) != arity:
        message = f"this lambda must have {arity} plain parameter{'' if arity == 1 else 's'}"
        raise compilation.fault(node, message, "write it like lambda row: row.name")
    if len(set(names)) < len(names) or any(name.startswith("__") for name in names):
        hint = "give each parameter a name of its own, without underscores"
        raise compilation.fault(node, "the parameters of this lambda are not distinct plain names", hint)
    with compilation.variables(names), compilation.measured() as size:
        body = compilation.build(node.body)
        cost = 1 + size()

    def make(budget: Budget, scope: Scope) -> Any:
        values = scope[1]

        def function(*arguments: Any) -> Any:
            budget.work(cost)
            for argument in arguments:
                if type(argument) not in KNOWN:
                    raise foreign(argument)
            return body(budget, [scope, values, *arguments])

        return function

    return make


# Methods


def _method_call(compilation: Compilation, node: ast.Call, function: ast.Attribute) -> Node:
    check_attribute_name(compilation, function)
    name, records_only = function.attr, compilation.records_only
    if name not in METHODS:
        close = did_you_mean(name, METHODS)
        hint = REFUSED_METHODS.get(name, f"there are: {', '.join(sorted(METHODS))}")
        raise compilation.fault(node, f"the method `.{name[:80]}()` is not supported{close}", hint)
    methods = METHODS[name]
    receiver_of = compilation.build(function.value)
    compilation.size += 1
    owner = next(iter(methods)).__name__
    arguments_of = _arguments(compilation, node.args, f"{owner}.{name}")
    keywords = _keywords(compilation, node, name, METHOD_KEYWORDS.get(name, frozenset()))

    def run(budget: Budget, scope: Scope) -> Any:
        receiver = receiver_of(budget, scope)
        method = methods.get(type(receiver))
        field = field_of(budget, receiver, name, records_only) if method is None else None
        arguments = arguments_of(budget, scope)
        options = {keyword: value_of(budget, scope) for keyword, value_of in keywords} if keywords else {}
        if method is None:
            raise TypeError(f"{type(field).__name__!r} object is not callable")
        return known(method(budget, receiver, arguments, options))

    return run


# Arguments


def _arguments(compilation: Compilation, arguments: list[ast.expr], name: str) -> Node:
    """Compile the positional arguments to one closure that gives their list."""
    is_alone = len(arguments) == 1 and isinstance(arguments[0], ast.Starred)

    def build(argument: ast.expr) -> Node:
        value_of = _argument(compilation, argument)

        def checked(budget: Budget, scope: Scope) -> Any:
            value = value_of(budget, scope)
            if type(value) not in SIZED and type(value) not in ITERATORS:
                kind = type(value).__name__  # CPython's words for a call whose only argument is `*value`
                raise TypeError(f"{name}() argument after * must be an iterable, not {kind}")
            return value

        return checked if is_alone else value_of

    return items_of(arguments, build, size=0, steps=_STEPS_PER_ARGUMENT, extra=_BYTES_PER_ARGUMENT)


def _argument(compilation: Compilation, node: ast.expr) -> Node:
    return generator(compilation, node) if isinstance(node, ast.GeneratorExp) else compilation.build(node)


def _keywords(
    compilation: Compilation, node: ast.Call, name: str, allowed: frozenset[str] | None, *, functions: bool = False
) -> list[tuple[str, Node]]:
    keywords: list[tuple[str, Node]] = []
    for keyword in node.keywords:
        if keyword.arg is None:
            hint = "write the keyword arguments out; for a dict, {**a, **b}"
            raise compilation.fault(keyword.value, "`**` in a call is not supported", hint)
        if allowed is not None and keyword.arg not in allowed:
            there_are = f"it takes {', '.join(sorted(allowed))}" if allowed else "it takes none; write the value alone"
            raise compilation.fault(keyword.value, f"`{name}` takes no keyword `{keyword.arg[:80]}` here", there_are)
        if keyword.arg in (given for given, _ in keywords):
            raise compilation.fault(keyword.value, f"the keyword `{keyword.arg[:80]}` is given twice", "remove one")
        if functions and keyword.arg == "key":
            keywords.append(("key", _function_argument(compilation, keyword.value, 1)))
        else:
            keywords.append((keyword.arg, _argument(compilation, keyword.value)))
    return keywords


CALL_BUILDERS: Final[dict[type[ast.expr], Any]] = {ast.Call: _call}
