"""Statements: assignments, prints, calls, loops, branches, changes in place, and what is beyond the covered subset.

A statement is a list of lines. Of calls that go on at the same time none changes the world while another reads it: what
such a program comes to depends on time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from fast_path.expressions import Choose, Expressions, Theme
from fast_path.odd_templates import OUTSIDE
from fast_path.statement_templates import CHANGES, LOOPS, PRINTS
from fast_path.vocabulary import KINDS

__all__ = ["Statements"]

_SIMPLE = frozenset({"int", "str", "float", "bool"})
_ENOUGH = 90


class Statements(Expressions):
    """The statements of one program in the making."""

    def __init__(self, choose: Choose, theme: Theme) -> None:
        super().__init__(choose, theme)
        self._nested = 0

    def block(self, least: int, most: int) -> list[str]:
        lines: list[str] = []
        for count in range(most):
            if count >= least and (self._size > _ENOUGH or not self.chance(800)):
                break
            lines += self.statement()
        return lines

    def statement(self) -> list[str]:
        kind = self.one_of(self._theme.statements)
        if self._nested >= 2 and kind in ("loop", "branch"):
            kind = "print"
        lines: list[str] = getattr(self, f"_{kind}")()
        return "\n".join(lines).split("\n")

    def await_slots(self) -> list[str]:
        """Await what was not awaited yet; seldom, leave it."""
        lines = []
        for name in list(self._slots):
            if not self.chance(30):
                if self.chance(300):
                    lines.append(f"print(await {name})")
                else:
                    result = name if self.chance(50) else self.fresh()
                    lines.append(f"{result} = await {name}")
                    self.bind(result, "any")
        self._slots.clear()
        if not self._nested:
            self._excluded = frozenset()
        return lines

    def _inner(self, names: dict[str, str] | None = None, most: int = 3) -> list[str]:
        """A block that may not be reached: what it binds is, as a rule, not used after it."""
        before, slots = dict(self._kinds), self._slots
        self._kinds.update(names or {})
        self._slots = {}
        self._nested += 1
        lines = self.block(1, most) + self.await_slots()
        self._nested -= 1
        self._slots = {name: kind for name, kind in slots.items() if name in before or name not in self._kinds}
        if not self.chance(50):
            self._kinds = before
        return ["    " + line for line in lines]

    def _target(self) -> str:
        """A name to assign to: mostly a new one."""
        if self._kinds and not self._nested and self.chance(250):
            return self.one_of(list(self._kinds))
        return self.fresh()

    # one line

    def _assign(self) -> list[str]:
        kind = self.one_of(KINDS)
        if self._nested and self.chance(300) and (known := [n for n, of in self._kinds.items() if of in KINDS]):
            name = self.one_of(known)
            return [f"{name} = {self.expression(self._kinds[name])}"]
        value = "await " + self.call(kind) if self.chance(3 * self._theme.calls) else self.expression(kind, 3)
        name = self._target()
        self.bind(name, kind)
        return [f"{name} = {value}"]

    def _fetch(self) -> list[str]:
        """Something to work with."""
        kind, call = self.one_of((
            ("weather", "get_weather(@CITY)"), ("strs", "list_cities()"), ("rows", "get_rows(@SMALL)"),
            ("int", "get_number(@SMALL)"), ("any", "odd(@WHICH)"), ("ints", "same(@ints)"), ("counts", "same(@counts)"),
        ))  # fmt: skip
        name = self._target()
        lines = [f"{name} = await {self.fill(call, 1)}"]
        self.bind(name, kind)
        return lines

    def _print(self) -> list[str]:
        return [self.fill(self.one_of([text for text in PRINTS if self.has_variables(text)]), 2)]

    def _call(self) -> list[str]:
        if self.chance(500):
            return [f"print(await {self.call(self.one_of(KINDS))})"]
        return ["await " + self.call("any")]

    def _effect(self) -> list[str]:
        call = "await " + self.call("any", families=self.one_of((("write",), ("write",), ("state",))))
        if self.chance(400):
            return [f"print({call})"]
        if self._nested or self.chance(500):
            return [call]
        name = self._target()
        self.bind(name, "any")
        return [f"{name} = {call}"]

    def _unpack(self) -> list[str]:
        form = self.one_of(
            ("{0}, {1} = {2}, {3}", "({0}, {1}) = [{2}, {3}]", "gather", "items", "swap", "[{0}, {1}] = ({2}, {3})")
        )
        known = list(self._kinds)
        if form == "swap" and len(known) > 1:
            one, two = self.one_of(known), self.one_of(known)
            self._kinds[one], self._kinds[two] = self._kinds[two], self._kinds[one]
            return [f"{one}, {two} = {two}, {one}"]
        kinds = self.one_of(KINDS), self.one_of(KINDS)
        if form == "items":
            line = self.fill("{0}, {1} = [(§, len(§)) for § in @strs][0]", 1)
            kinds = "str", "int"
        elif form == "gather":
            line = "{0}, {1} = await asyncio.gather(" + ", ".join(self._together(*kinds)) + ")"
        else:
            values = [self.expression(kind) for kind in kinds]
            line = (form if "{" in form else "{0}, {1} = {2}, {3}").replace("{2}", values[0]).replace("{3}", values[1])
        names = self._target(), self._target()
        for name, kind in zip(names, kinds, strict=True):
            self.bind(name, kind)
        return [line.replace("{0}", names[0]).replace("{1}", names[1])]

    def _alias(self) -> list[str]:
        known = [name for name, kind in self._kinds.items() if kind not in _SIMPLE]
        if not known:
            return self._fetch()
        old = self.one_of(known)
        form = self.one_of(("{}", "{}", "await same({})", "[{}, {}]", "{{'k': {}}}", "({}, 1)", "{} or []", "[*{}]"))
        kind = self._kinds[old]
        new = self._target()
        self.bind(new, kind if form in ("{}", "await same({})") else "any")
        return [f"{new} = {form.format(old, old)}"]

    def _change(self) -> list[str]:
        template = self.one_of(CHANGES)
        lines = []
        for kind in re.findall(r"\$([a-z]+)", template):
            if not self.known(kind):
                name = self.fresh()
                lines.append(f"{name} = {self.expression(kind)}")
                self.bind(name, kind)
        return [*lines, self.fill(template, 2)] if self.has_variables(template) else lines

    def _outside(self) -> list[str]:
        return [self.fill(self.one_of(OUTSIDE), 1)]

    # several lines

    def _loop(self) -> list[str]:
        head, kinds = self.one_of(LOOPS)
        head = self.fill(head, 1).removesuffix(":")
        names: list[str] = []
        for place in range(len(kinds)):
            names.append(self.fresh(*names))
            head = head.replace(f"{{{place}}}", names[place])
        named = dict(zip(names, kinds, strict=True))
        before = self._excluded
        if not self.chance(500):
            self._excluded |= {"write"}
        gone_over = {name: kind for name, kind in self._kinds.items() if kind not in _SIMPLE and name in head.split()}
        if not self.chance(200):  # and do not change what they go over
            self._kinds = {name: kind for name, kind in self._kinds.items() if name not in gone_over}
        try:
            return self._rounds(head, names, named)
        finally:
            self._excluded = before
            self._kinds = {**gone_over, **self._kinds}

    def _rounds(self, head: str, names: list[str], named: dict[str, str]) -> list[str]:
        grown = self.one_of(("", "append", "total", "item", "slots", "text", "", "chain", "perhaps"))
        if not grown:
            return [f"{head}:", *self._inner(named)]
        result = self.fresh(*names)
        start = {"total": "0", "item": "{}", "text": "''", "chain": "1", "perhaps": "0"}.get(grown, "[]")
        body = self._inner(named, 2) if self.chance(600) else []
        with self.binding(named):
            last = {
                "append": lambda: f"{result}.append({self.expression(self.one_of(KINDS))})",
                "total": lambda: f"{result} += {self.expression('int')}",
                "text": lambda: f"{result} += {self.expression('str')}",
                "item": lambda: f"{result}[{names[0]}] = {self.expression(self.one_of(KINDS))}",
                "slots": lambda: f"{result}.append({self.call('any', families=('read',))})",
                "chain": lambda: f"{result} = await get_number({result} % 5) + {self.expression('int')} % 3",
                "perhaps": lambda: f"if {self.expression('bool')}:\n    {result} = await {self.call('int')}",
            }[grown]()
        body += ["    " + line for line in last.split("\n")]
        kind = {"append": "any", "total": "int", "item": "any", "text": "str", "slots": "any"}.get(grown, "int")
        if grown == "slots":
            held = result
            self.hold(held)
            if self.chance(300):
                return [f"{held} = []", f"{head}:", *body, f"for each in {held}:", "    print(await each)"]
            result = held if self.chance(30) else self.fresh(*names)
            self.bind(result, kind)
            return [f"{held} = []", f"{head}:", *body, f"{result} = await asyncio.gather(*{held})"]
        self.bind(result, kind)
        return [f"{result} = {start}", f"{head}:", *body]

    def _branch(self) -> list[str]:
        if self.chance(250):
            name, kind, test = self._target(), self.one_of(KINDS), self.expression("bool")
            sides = ["await " + self.call(kind) if self.chance(400) else self.expression(kind) for _ in ("if", "else")]
            lines = f"if {test}:\n    {name} = {sides[0]}\nelse:\n    {name} = {sides[1]}".split("\n")
            self.bind(name, kind)
            return lines
        lines = [f"if {self.expression('bool')}:", *self._inner(most=2)]
        if self.chance(300):
            lines += [f"elif {self.expression('bool')}:", *self._inner(most=2)]
        if self.chance(500):
            lines += ["else:", *self._inner(most=2)]
        return lines

    # calls at the same time

    @contextlib.contextmanager
    def _in_flight(self, family: str) -> Iterator[None]:
        before = self._excluded
        self._excluded = before | {"write": {"state"}, "state": {"write"}}.get(family, set())
        try:
            yield
        finally:
            self._excluded = before

    def _family(self) -> str:
        return self.one_of([each for each in ("read", "read", "write", "state") if each not in self._excluded])

    def _together(self, *kinds: str) -> tuple[str, ...]:
        family = self._family()
        with self._in_flight(family):
            return tuple(self.call(kind, families=self.one_of(((family,), ("read",)))) for kind in kinds)

    def _gather(self) -> list[str]:
        form = self.one_of((
            "explicit", "list", "generator", "broken", "named", "tasks", "mixed", "await each", "zipped",
            "printed", "map",
        ))  # fmt: skip
        if form in ("explicit", "broken", "printed"):
            calls = self._together(*(self.one_of(KINDS) for _ in range(1 + self.one_of((1, 0, 2)))))
            value = f"await asyncio.gather({', '.join(calls)})"
            if form == "broken":
                value = "await asyncio.gather(\n    {},\n)".format(",\n    ".join(calls))
            if form == "printed":
                return [f"print({value})"]
            return self._bound(value)
        name = self.fresh()
        bound, values = self.one_of((("str", "@strs"), ("int", "@ints"), ("row", "@rows"), ("str", "[@CITY, @CITY]")))
        values = self.fill(values, 1)
        family = self.one_of([each for each in ("read", "read", "write") if each not in self._excluded])
        with self.binding({name: bound}), self._in_flight(family), self.without_calls():
            call = self.call(self.one_of(KINDS), families=(family,))
            condition = f" if {self.expression('bool', 1)}" if self.chance(150) else ""
        rounds = f"{call} for {name} in {values}{condition}"
        if form == "await each":
            text = self.one_of(("[await {0} for {1} in {2}]", "{{{1}: await {0} for {1} in {2}}}",
                                "[({1}, await {0}) for {1} in {2}]", "[[await {0} for {1} in {2}] for _ in [1, 2]]",
                                "sorted([str(await {0}) for {1} in {2}])"))  # fmt: skip
            return self._bound(text.format(call, name, values))
        if form in ("named", "tasks"):
            listed = self.fresh(name)
            self.hold(listed)
            started = f"asyncio.create_task({call})" if form == "tasks" else call
            lines = [f"{listed} = [{started} for {name} in {values}{condition}]"]
            with self._in_flight(family):
                lines += self._print() if self.chance(200) else []
            return lines + self._bound(f"await asyncio.gather(*{listed})")
        if form == "zipped":
            return self._bound(f"dict(zip({values}, await asyncio.gather(*({call} for {name} in {values}))))")
        return self._bound({
            "list": f"await asyncio.gather(*[{rounds}])",
            "generator": f"await asyncio.gather(*({rounds}))",
            "mixed": f"await asyncio.gather(get_number(1), *[{rounds}], same('last'))",
            "map": f"await asyncio.gather(*map({self.one_of(('get_number', 'same'))}, {self.expression('ints', 1)}))",
        }[form])  # fmt: skip

    def _bound(self, value: str) -> list[str]:
        name = self._target()
        self.bind(name, "any")
        return [f"{name} = {value}"]

    def _slot(self) -> list[str]:
        """Start a call, or await one that was started."""
        if self._slots and self.chance(500):
            name = self.one_of(list(self._slots))
            kind = self._slots.pop(name)
            target = self._target()
            self.bind(target, kind)
            return [f"{target} = await {name}"]
        kind, family = self.one_of(KINDS), self._family()
        self._excluded |= {"write": {"state"}, "state": {"write"}}.get(family, set())
        call = self.call(kind, families=(family,))
        name = self.fresh()
        self.hold(name)
        self._slots[name] = kind
        return [f"{name} = asyncio.create_task({call})" if self.chance(400) else f"{name} = {call}"]
