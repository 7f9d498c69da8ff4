"""Weigh values: the cost of visiting one, from sizes, before CPython's own C code visits it.

The rule of the room: **the cost of an operation is known before it begins, from the sizes of its operands.** An
operation that costs more than the budget has does not begin: a program goes to the sandbox, a plan is refused in words.

1. Comparing, sorting, hashing, searching and writing visit a value as a tree. A small value can be a huge tree
   (``[[x] * 1000] * 1000``): `weigh` visits each shared part once and multiplies. The walk costs what is stored, and
   the result is the size of the whole tree.
2. A text counts by its characters, an integer by its bits; neither counts as one object.
3. The walk itself is paid for on the way. It refuses more than `MOST_DEPTH` levels, and at any depth a value of an
   unknown type, so that C code never calls a method of it.
4. A comparison visits pairs, and ends with the shorter side: it costs what the lighter side weighs.
5. Keys: texts have a secret, random hash, small numbers an honest one. Large integers and tuples can be made to
   collide (``k * (2**61 - 1)``, tuples of -1 and -2), which makes a table of n keys cost n² comparisons. A table with
   more than `MOST_CLASHES` keys of one hash is not made.

One step is at most a quarter of a microsecond. The shifts below were measured, on CPython 3.11, with the worst values
that were found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from .budget import MOST_DEPTH, Budget, BudgetExceeded, ExpressionFault
from .kinds import DICTS, ITERATORS, KNOWN, NUMBERS, SCALARS, SIZED, DictItems, DictKeys, foreign, length

__all__ = [
    "Keys", "Weight", "charge_comparison", "charge_float", "charge_key", "charge_keys_of", "charge_search",
    "charge_sorting", "charge_text", "metered", "types_in", "weigh",
]  # fmt: skip

MOST_CLASHES: Final = 16
_HONEST: Final = 2**61 - 1  # below, an integer is its own hash
_HONEST_BITS: Final = 61
_PLAIN: Final = SCALARS | {str}
_PLAIN_KEYS: Final = frozenset[type]({str, float, bool, type(None)})
_TABLES: Final = DICTS | {set, DictKeys}
_CONTAINERS: Final = SIZED - {str, range}
_SHORT_INTEGER: Final = 1 << 63
_NEAR: Final = 1e20
"""Floats between its inverse and it are written and rounded without arithmetic on large integers."""


class Weight(NamedTuple):
    """The weight of a value as a tree."""

    steps: int
    """Number of plain values; long texts and integers count once more for each piece."""
    bytes: int
    """Size of the value's text; 0 if none is written."""
    height: int
    """Levels of containers."""


Text = Literal["", "repr", "json"]


def weigh(budget: Budget, value: Any, text: Text = "", around: int = 0) -> Weight:
    """Return the weight of a value of a known type. The walk is paid for, the weight is not.

    Args:
        budget: pays for the walk.
        value: the value.
        text: how the value is written; empty if it is only visited.
        around: bytes that are written around each item.
    """
    kind = type(value)
    if kind not in KNOWN:
        raise foreign(value)
    if kind not in _CONTAINERS:
        return Weight(*_of_plain(budget, (value,), {kind}, text), 0)
    steps = made = 0
    level: dict[int, list[Any]] = {1: [value]}
    for height in range(MOST_DEPTH):
        if not level:
            return Weight(steps, made, height)
        inner: dict[int, list[Any]] = {}
        for times, containers in level.items():
            items = _items(budget, containers)
            kinds = types_in(budget, items)
            found = [item for item in items if type(item) in _CONTAINERS] if not kinds <= _PLAIN else []
            plain = [item for item in items if type(item) not in _CONTAINERS] if found else items
            more, size = _of_plain(budget, plain, kinds, text) if plain else (0, 0)
            if not text:
                keys = list(chain.from_iterable(each for each in containers if type(each) in _TABLES))
                more += 8 * len(_suspects(budget, keys)) if keys else 0
            steps += times * (2 * len(containers) + more)
            made += times * (32 * len(containers) + 2 * around * len(items) + size)
            if found:
                inner.setdefault(times, []).extend(found)
        level = _shared(budget, inner)
    raise BudgetExceeded("depth", MOST_DEPTH)


def _items(budget: Budget, containers: list[Any]) -> Any:
    """Return the items directly in these containers."""
    budget.work(len(containers))
    if len(containers) == 1 and type(containers[0]) not in DICTS:
        kind = type(containers[0])
        return list(containers[0]) if kind is DictItems else containers[0]  # its pairs are made anew each time
    items: list[Any] = []
    for container in containers:
        budget.work(len(container) >> 2)
        items.extend(container)
        if type(container) in DICTS:
            items.extend(container.values())
    return items


def _shared(budget: Budget, level: dict[int, list[Any]]) -> dict[int, list[Any]]:
    """Return the containers of a level, each once, by how many times the tree has them."""
    budget.work(sum(map(len, level.values())))
    if len(level) == 1:
        ((times, containers),) = level.items()
        if len(set(map(id, containers))) == len(containers):
            return level
    counts: dict[int, int] = {}
    found: dict[int, Any] = {}
    for times, containers in level.items():
        for container in containers:
            counts[id(container)] = counts.get(id(container), 0) + times
            found[id(container)] = container
    by_times: dict[int, list[Any]] = {}
    for identity, container in found.items():
        by_times.setdefault(counts[identity], []).append(container)
    return by_times


def types_in(budget: Budget, values: Any) -> set[type]:
    """Return the exact types of a container's items. Raises `ExpressionFault` for an unknown type."""
    budget.work(1 + (length(values) >> 3))
    kinds = set(map(type, values))
    if not kinds <= KNOWN:
        raise foreign(next(value for value in values if type(value) not in KNOWN))
    return kinds


def metered(budget: Budget, values: Iterable[Any]) -> Iterator[Any]:
    """Return the items one by one; each is paid for, and has a known type."""
    for value in values:
        budget.steps_left -= 1
        if budget.steps_left < 0:
            budget.work(0)
        if type(value) not in KNOWN:
            raise foreign(value)
        yield value


# Plain values


def _those(values: Collection[Any], kinds: set[type], kind: type) -> Collection[Any]:
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]


def _of_plain(budget: Budget, values: Collection[Any], kinds: set[type], text: Text) -> tuple[int, int]:
    """Return steps and bytes of values of these types, which are not containers."""
    steps, made = len(values), 32 * len(values)
    if str in kinds:
        texts = _those(values, kinds, str)
        size = sum(map(len, texts))
        steps += size >> (5 if text else 6)
        if text:
            budget.work(size >> 8)  # `isprintable` reads every character, of a text that is there often each time
            ascii_only = all(map(str.isascii, texts))
            if all(map(str.isprintable, texts)) and (ascii_only or text == "repr"):
                made += (2 if ascii_only else 8) * size
            else:
                made += (12 if text == "json" else 40) * size
                steps += size >> 3
    if int in kinds:
        lengths = list(map(int.bit_length, _those(values, kinds, int)))
        longest = max(lengths)
        if not text:
            steps += sum(lengths) >> 10
        elif longest > 64:
            made += longest // 3 * len(values)
            steps += ((longest // 30) ** 2 >> 6) * len(values)
    if not text:
        return steps, 0
    if float in kinds:
        steps += _float_steps(_those(values, kinds, float)) * len(values)
    for kind in kinds - _PLAIN - _CONTAINERS:
        if kind in ITERATORS and text == "repr":
            raise ExpressionFault(f"the text of a {kind.__name__} object holds an address", "write list(...) around it")
        made += 512 * len(values)  # ranges and slices
        steps += 32 * len(values)
    return steps, made


def _float_steps(numbers: Collection[float]) -> int:
    """Return the extra steps to write each number: very large and small ones need integers of a thousand bits."""
    if len(numbers) == 1:
        (number,) = numbers
        return 11 if not number or 1 / _NEAR < abs(number) < _NEAR else 63
    near = max(map(abs, numbers)) < _NEAR and min(filter(None, map(abs, numbers)), default=1.0) > 1 / _NEAR
    return 11 if near else 63


# Charges


def charge_comparison(budget: Budget, left: Any, right: Any) -> None:
    """Pay for any of the six comparisons of two values."""
    kind, other = type(left), type(right)
    if kind is str and other is str:
        budget.work(min(len(left), len(right)) >> 8)
        return
    if kind not in _CONTAINERS or other not in _CONTAINERS:
        for value in (left, right):
            if type(value) not in KNOWN:
                raise foreign(value)
        return  # the largest integer there may be is compared within a step
    budget.work(min(weigh(budget, left).steps, weigh(budget, right).steps) >> 3)


def charge_search(budget: Budget, wanted: Any, values: Any) -> None:
    """Pay for comparing one value with each item of a container in turn."""
    size = length(values)
    budget.work(size >> 3)
    types_in(budget, values)
    each = weigh(budget, wanted)
    if each.steps > 1:  # else each comparison is over at once
        budget.work(min(size * each.steps, weigh(budget, values).steps) >> 3)


def charge_sorting(budget: Budget, values: Collection[Any]) -> None:
    """Pay for the comparisons of sorting.

    In one round of merging each comparison moves one value on, and costs no more than the lighter of two: a round costs
    what all values weigh together, and there are log n rounds.
    """
    kinds = types_in(budget, values)
    budget.work(
        weigh(budget, values).steps * len(values).bit_length()
        >> (4 if kinds <= NUMBERS else 3 if kinds == {str} else 1)
    )


def charge_text(
    budget: Budget, value: Any, *, json: bool = False, separator: int = 2, indent: int = 0, times: int = 1
) -> None:
    """Pay for writing a value `times` times: as `repr` does, or with `json` as `json.dumps` does."""
    kind = type(value)
    if kind is int and -_SHORT_INTEGER < value < _SHORT_INTEGER:
        budget.make(32)
        return
    if kind is float:
        budget.work((1 + _float_steps((value,))) * times >> 2)
        budget.make(32)
        return
    weight = weigh(budget, value, "json" if json else "repr", separator + 2)
    budget.work(1 + weight.steps * times >> 2)
    budget.make(times * (weight.bytes + 2 * indent * weight.height * weight.steps))


def charge_float(budget: Budget, number: Any) -> None:
    """Pay for rounding a number, or for writing it with a given number of digits, as a float."""
    if type(number) in NUMBERS and number and not 1 / _NEAR < abs(number) < _NEAR:
        budget.work(60)


def charge_key(budget: Budget, key: Any) -> None:
    """Pay for looking up one key."""
    kind = type(key)
    if kind is str:
        budget.work(len(key) >> 8)
    elif (kind is int or kind is tuple) and _may_collide(key):
        budget.work(weigh(budget, key).steps * MOST_CLASHES >> 2)


def charge_keys_of(budget: Budget, table: Any) -> None:
    """Pay for looking up every key of a dict, a set or a view in another one."""
    keys = table.keys() if type(table) in DICTS else table
    budget.work(weigh(budget, keys).steps >> 3)
    suspects = _suspects(budget, keys) if type(keys) in _TABLES else ()
    if suspects and max(Counter(map(hash, suspects)).values()) > MOST_CLASHES:
        raise BudgetExceeded("clashes", MOST_CLASHES)


def _suspects(budget: Budget, keys: Any) -> Collection[Any]:
    """Return the keys whose hash an attacker can choose."""
    kinds = types_in(budget, keys)
    if kinds <= _PLAIN_KEYS or (kinds == {int} and max(map(int.bit_length, keys)) < _HONEST_BITS):
        return ()
    budget.work(len(keys))
    return [key for key in keys if _may_collide(key)]


def _may_collide(key: Any) -> bool:
    kind = type(key)
    return kind is tuple or (kind is int and not -_HONEST < key < _HONEST)


class Keys:
    """Pays for each key of a dict or set before the key goes in."""

    __slots__ = ("_budget", "_same", "_seen")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._seen: set[Any] = set()
        self._same: dict[int, int] = {}

    def pay(self, key: Any) -> None:
        """Pay for one key. A key that cannot be hashed is left to Python and its message."""
        kind = type(key)
        if kind is str:
            if len(key) > 255:
                self._budget.work(len(key) >> 8)
        elif kind in KNOWN:
            if _may_collide(key):
                self._pay_suspect(key)
        else:
            raise foreign(key)

    def _pay_suspect(self, key: Any) -> None:
        budget = self._budget
        weight = weigh(budget, key).steps
        budget.work(12 + (weight >> 1))
        try:
            hashed = hash(key)
        except TypeError:
            return
        same = self._same.get(hashed, 0)
        budget.work(same * weight)
        if same >= MOST_CLASHES:
            raise BudgetExceeded("clashes", MOST_CLASHES)
        before = len(self._seen)
        self._seen.add(key)
        if len(self._seen) > before:
            budget.make(128)
            self._same[hashed] = same + 1

    def paying(self, keys: Iterable[Any]) -> Iterator[Any]:
        """Return the keys one by one, each paid for."""
        for key in keys:
            self._budget.work(1)
            self._budget.make(64)
            self.pay(key)
            yield key

    def paying_for_pairs(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """Return pairs for `dict` one by one, their keys paid for. An item that is not a pair is left to Python."""
        for pair in pairs:
            self._budget.work(2)
            self._budget.make(100)
            kind = type(pair)
            if kind in ITERATORS:
                raise ExpressionFault("a pair given as an iterator is not supported", "write tuple(...) around it")
            if kind not in KNOWN:
                raise foreign(pair)
            if kind in SIZED and length(pair) == 2:
                self.pay(next(iter(pair)))
            yield pair
