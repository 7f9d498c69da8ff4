"""Everything outside the closed list is refused, by name, with what to write instead and where it stands."""

from __future__ import annotations

import pytest

from callgate.plan.expressions import ExpressionFault, parse_expression

REFUSED = [
    # nodes
    ("await x", "`await` cannot stand here", "a step's result is there already: write its id"),
    ("(yield)", "`yield` cannot stand here", "write a list"),
    ("(yield from x)", "`yield from` cannot stand here", "write a list"),
    ("(y := 1)", "`:=` cannot stand here", "repeat the value, or give it a step of its own"),
    ("lambda x: x", "`lambda` cannot stand here", "write it as key= of sorted, min or max"),
    ("(x for x in y)", "a generator cannot stand here", "write a list, [x for x in values]"),
    ("[(x for x in y)]", "a generator cannot stand here", "write a list, [x for x in values]"),
    ("x[a:b, c]", "a slice cannot stand here", "write values[a:b]"),
    ("b'x'", "the constant bytes `b'x'` is not a JSON value", "use texts, numbers, True, False and None"),
    ("...", "the constant ... is not a JSON value", "use texts, numbers, True, False and None"),
    ("2j", "the constant complex `2j` is not a JSON value", "use texts, numbers, True, False and None"),
    ("a @ b", "the operator `@` cannot stand here", "use + - * /"),
    ("'%s' % x", "`%` on a text is not supported", "write an f-string"),
    ("f'{x}' % x", "`%` on a text is not supported", "write an f-string"),
    ("a is b", "`is` compares only with None, True or False", "write == or !="),
    ("a is not 5", "`is` compares only with None, True or False", "write == or !="),
    ("[x async for x in y]", "`async for` cannot stand here", "write `for`"),
    ("[x for x.y in z]", "`x.y` cannot be a variable of `for`", "use plain names"),
    ("[x for x[0] in z]", "`x[0]` cannot be a variable of `for`", "use plain names"),
    ("[x for x, *y in z]", "`*y` cannot be a variable of `for`", "use plain names"),
    ("[a for a,b,c,d,e,f,g in z]", "`for` takes apart at most 6 values, and at least one", "take them by position"),
    ("[1 for [] in z]", "`for` takes apart at most 6 values, and at least one", "take them by position"),
    ("[y for x in z for y in y]", "`y` is used before it has a value", "put the `for` that binds it before"),
    # names and attributes
    ("__import__", "the name `__import__` leads into the interpreter", "use a name without underscores"),
    ("__builtins__['eval']", "the name `__builtins__` leads into the interpreter", "use a name without underscores"),
    ("[1 for __x in y]", "the name `__x` leads into the interpreter", "use a name without underscores"),
    ("x.__class__", "the attribute `__class__` leads into the interpreter", "write ['__class__']"),
    ("''.__class__.__mro__", "the attribute `__mro__` leads into the interpreter", "write ['__mro__']"),
    ("x.__len__()", "the attribute `__len__` leads into the interpreter", "write ['__len__']"),
    # calls
    ("print(1)", "there is no function `print`", "there are: abs, all, any, bool,"),
    ("summ(x)", "there is no function `summ`; did you mean sum?", "there are: abs,"),
    ("eval('1')", "there is no function `eval`", "there are: abs,"),
    ("__import__('os')", "there is no function `__import__`", "there are: abs,"),
    ("getattr(x, 'y')", "there is no function `getattr`", "there are: abs,"),
    ("open('x')", "there is no function `open`", "there are: abs,"),
    ("json.dump(x)", "there is no function `json.dump`; did you mean json.dumps?", "there are: abs,"),
    ("x()()", "the result of an expression cannot be called", "call a listed function or a method by its name"),
    ("(lambda: 1)()", "the result of an expression cannot be called", "call a listed function or a method by its name"),
    ("x['f']()", "the result of an expression cannot be called", "call a listed function or a method by its name"),
    ("[len(x) for len in y]", "`len` is a value here and cannot be called", "only the listed functions can be called"),
    ("[json.dumps(x) for json in y]", "the method `.dumps()` is not supported", "there are: capitalize,"),
    ("sorted(x, key=y)", "`y` is not a listed function", "write a lambda, like lambda row: row.name"),
    ("sorted(x, key=y['f'])", "a function must be written in place here", "write a lambda"),
    ("sorted(x, key=str.format)", "a function must be written in place here", "write a lambda"),
    ("[sorted(x, key=str.lower) for str in y]", "a function must be written in place here", "write a lambda"),
    ("sorted(x, key=lambda: 1)", "this lambda must have 1 plain parameter", "write it like lambda row: row.name"),
    ("sorted(x, key=lambda a, b: 1)", "this lambda must have 1 plain parameter", "write it like lambda"),
    ("sorted(x, key=lambda a=1: 1)", "this lambda must have 1 plain parameter", "write it like lambda"),
    ("sorted(x, key=lambda *a: 1)", "this lambda must have 1 plain parameter", "write it like lambda"),
    ("map(lambda a: 1, x, y)", "this lambda must have 2 plain parameters", "write it like lambda"),
    ("map(lambda a, a: 1, x, y)", "the parameters of this lambda are not distinct", "give each parameter a name"),
    ("map(f, x)", "`f` is not a listed function", "write a lambda"),
    ("map(lambda a: 1, *x)", "`*` in the arguments of `map` with a lambda", "write the arguments out"),
    ("map(*x)", "a function must be written in place here", "write a lambda"),
    ("len(**x)", "`**` in a call is not supported", "write the keyword arguments out"),
    ("str(object=x)", "`str` takes no keyword `object` here", "it takes none; write the value alone"),
    ("sorted(x, cmp=1)", "`sorted` takes no keyword `cmp` here", "it takes key, reverse"),
    ("json.dumps(x, default=str)", "`json.dumps` takes no keyword `default` here", "it takes allow_nan,"),
    ("json.dumps(x, cls=y)", "`json.dumps` takes no keyword `cls` here", "it takes allow_nan,"),
    ("json.loads(x, object_hook=y)", "`json.loads` takes no keyword `object_hook` here", "it takes none"),
    ("x.split(chars=1)", "`split` takes no keyword `chars` here", "it takes maxsplit, sep"),
    ("sorted(x, reverse=1, reverse=2)", "reverse", ""),
    # methods
    ("x.format(1)", "the method `.format()` is not supported", "write an f-string"),
    ("'{0.__class__}'.format(x)", "the method `.format()` is not supported", "write an f-string"),
    ("x.format_map(y)", "the method `.format_map()` is not supported", "write an f-string"),
    ("x.encode()", "the method `.encode()` is not supported", "an expression has no bytes"),
    ("x.append(1)", "the method `.append()` is not supported", "write values + [item]"),
    ("x.sort()", "the method `.sort()` is not supported", "write sorted(values)"),
    ("x.pop()", "the method `.pop()` is not supported", "it changes its object"),
    ("x.update(y)", "the method `.update()` is not supported", "write {**values, **more}"),
    ("x.union(y)", "the method `.union()` is not supported", "write values | more"),
    ("x.translate(y)", "the method `.translate()` is not supported", "there are: capitalize,"),
    ("x.splitt()", "the method `.splitt()` is not supported; did you mean split?", "there are: capitalize,"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "message", "hint"), REFUSED)
def test_what_is_not_listed_is_refused_with_a_hint(source: str, message: str, hint: str) -> None:
    with pytest.raises(ExpressionFault) as refusal:
        parse_expression(source)
    assert message in refusal.value.message
    assert hint in refusal.value.hint
    assert refusal.value.hint
    assert refusal.value.column is not None
    assert 1 <= refusal.value.column <= len(source)


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("s % 1", "`%` on a text is not supported", "write an f-string, like f'{x:.2f}'"),
        ("(-8) ** 0.5", "(-8) ** 0.5 is a complex number", "use abs(...) of the base"),
        ("s.upper", "`.upper` of a str is not supported", "call it: .upper(...)"),
        ("n.real", "`.real` of a int is not supported", "use what Python's operators give of it"),
        ("range(3).start", "`.start` of a range is not supported", "use what Python's operators give of it"),
        ("range(3).count(1)", "`.count` of a range is not supported", "use what Python's operators give of it"),
        ("zip(s)", "the value is a zip object, which can be read only once", "write list(...)"),
        ("map(str, s)", "the value is a map object, which can be read only once", "write list(...)"),
        ("str(zip(s))", "the text of a zip object holds an address", "write list(...) around it"),
        ("f'{[zip(s)]}'", "the text of a zip object holds an address", "write list(...) around it"),
        ("d.items() & d.items()", "an operator between dict_items and dict_items", "write set(...) around both sides"),
        ("d.keys() & [1]", "an operator between dict_keys and list is not supported", "write set(...)"),
        ("dict([zip('ab')])", "a pair given as an iterator is not supported", "write tuple(...) around it"),
        ("range(2 ** 200)", "counting with a number of 201 bits is not supported", "use numbers of at most 128 bits"),
        ("foreign", "a value of type object cannot be used in an expression", "use JSON values"),
        ("d.foreign", "a value of type object cannot be used in an expression", "use JSON values"),
        ("d['foreign']", "a value of type object cannot be used in an expression", "use JSON values"),
        ("d.get('foreign')", "a value of type object cannot be used in an expression", "use JSON values"),
        ("[x for x in d.values()]", "a value of type object cannot be used in an expression", "use JSON values"),
        ("d == {**d}", "a value of type object cannot be used in an expression", "use JSON values"),
        ("1 in d.values()", "a value of type object cannot be used in an expression", "use JSON values"),
        ("f'{d}'", "a value of type object cannot be used in an expression", "use JSON values"),
        ("sorted(d.values())", "a value of type object cannot be used in an expression", "use JSON values"),
        ("max(d.values())", "a value of type object cannot be used in an expression", "use JSON values"),
        ("all(d.values())", "a value of type object cannot be used in an expression", "use JSON values"),
        ("sum(d.values())", "a value of type object cannot be used in an expression", "use JSON values"),
        ("list(map(bool, d.values()))", "a value of type object cannot be used in an expression", "use JSON values"),
        ("set(d.values())", "a value of type object cannot be used in an expression", "use JSON values"),
        ("{x: 1 for x in d.values()}", "a value of type object cannot be used in an expression", "use JSON values"),
        ("json.dumps(d)", "a value of type object cannot be used in an expression", "use JSON values"),
    ],
)  # fmt: skip
def test_what_only_the_values_show_is_refused_when_it_is_evaluated(source: str, message: str, hint: str) -> None:
    expression = parse_expression(source)
    with pytest.raises(ExpressionFault) as refusal:
        expression.evaluate({"s": "ab", "n": 1, "foreign": object(), "d": {"a": 1, "foreign": object()}})
    assert message in refusal.value.message
    assert hint in refusal.value.hint


TOUCHES = """
t
x[0]
x == x
x == [1, 2]
[1, 2] == x
x < y
1 in x
[1] in [x]
x.index(1)
x.count(1)
sorted(x)
min(x)
max(x, y)
sum(x)
any(x)
list(map(len, x))
list(filter(None, x))
f'{x}'
f'{x!r:>9}'
str(x)
json.dumps(x)
set(x)
dict([x])
{tuple(x)}
{tuple(x): 1}
tuple(x) in {(1, 2)}
[*x][0]
[i for i in x]
[a for a, b in [x]]
','.join(x)
(x + x) == [1, 2, 3, 4]
sorted(x, key=lambda i: 1)
sorted([2, 1], key=lambda i: x)
max([2, 1], key=lambda i: x)
{'a': x} == {'a': y}
t.upper()
not t
t and 1
-t
t + 1
{**t}
"""


def test_no_method_of_a_foreign_type_is_called() -> None:
    class Trap:
        def _spring(self, *_arguments: object) -> object:
            raise AssertionError("called")

        __eq__ = __bool__ = __len__ = __iter__ = __getitem__ = __hash__ = __str__ = __repr__ = _spring  # type: ignore[assignment]
        __add__ = __radd__ = __lt__ = __gt__ = __format__ = __contains__ = __index__ = __getattr__ = _spring  # type: ignore[assignment]

    class Text(str):
        __slots__ = ()
        __eq__ = __hash__ = upper = Trap._spring  # type: ignore[assignment]

    for trap in (Trap(), Text("a")):
        for source in TOUCHES.strip().splitlines():
            with pytest.raises(ExpressionFault, match="cannot be used in an expression"):
                parse_expression(source).evaluate({"t": trap, "x": [trap, trap], "y": [trap, 1]})


def test_with_records_only_the_names_of_a_dicts_own_methods_are_no_fields() -> None:
    for name in ("items", "keys", "values", "get", "copy", "pop", "update"):
        with pytest.raises(ExpressionFault) as refusal:
            parse_expression(f"x.{name}", records_only=True)
        assert refusal.value.hint == f"write ['{name}'] for the field, or .{name}() for the call"
