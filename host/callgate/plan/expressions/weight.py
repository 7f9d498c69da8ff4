"""What looking at a value costs, found out and charged before CPython's own C code looks at it.

Rules:

1. Comparing, sorting, hashing, searching and writing out visit a value as a tree. A small value can be a huge tree
   (``[[x] * 1000] * 1000``), so the walks here count what will be visited, not what is stored.
2. The walks are loops, level by level. They charge as they go: a walk is never longer than the budget, and no level
   is spread out before it is paid for. They stop at `MOST_DEPTH`.
3. They refuse what is not of a known type, at any depth, so that C code never calls a method of it.
4. A comparison visits pairs. Where either side ends, so does it: the cost is that of the smaller tree.
5. A list of plain numbers is recognised at C speed and not walked.
6. Keys: texts have a secret, random hash, small numbers an honest one. Large integers and tuples can be made to
   collide (``k * (2**61 - 1)``, tuples of -1 and -2), which makes a table of n keys cost n² comparisons. For those the
   comparisons are counted, by hash, and charged. See `Keys`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from .budget import MOST_DEPTH, Budget
from .faults import BudgetExceeded, ExpressionFault
from .kinds import (
    DICTS,
    ITERATORS,
    KNOWN,
    NUMBERS,
    SCALARS,
    SEQUENCES,
    SIZED,
    VIEWS,
    DictKeys,
    foreign,
    length,
)

__all__ = [
    "Keys", "charge_comparison", "charge_key", "charge_keys_of", "charge_search", "charge_sorting", "charge_text",
    "metered", "types_in", "weigh",
]  # fmt: skip

_HONEST: Final = 2**61 - 1  # below, an integer is its own hash
_SET_LIKE: Final = frozenset[type]({set, DictKeys})
_PLAIN_KEYS: Final = frozenset[type]({str, float, bool, type(None)})


def types_in(budget: Budget, values: Any) -> set[type]:
    """The exact types of a container's items, all of them known ones."""
    budget.work(1 + (length(values) >> 3))
    kinds = set(map(type, values))
    if not kinds <= KNOWN:
        raise foreign(next(value for value in values if type(value) not in KNOWN))
    return kinds


def metered(budget: Budget, values: Iterable[Any]) -> Iterator[Any]:
    """The items one by one, each paid for, each of a known type."""
    for value in values:
        budget.steps_left -= 1
        if budget.steps_left < 0:
            budget.work(0)
        if type(value) not in KNOWN:
            raise foreign(value)
        yield value


def weigh(budget: Budget, value: Any) -> int:
    """How many plain values and 64-character pieces of text a value has, as a tree. Charged on the way."""
    kind = type(value)
    if kind in SCALARS:
        return 1
    if kind is str:
        return 1 + (len(value) >> 6)
    weight = 1
    budget.work(2)
    level = [value]
    for _ in range(MOST_DEPTH):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                weight += 1 + (len(item) >> 6)
                budget.work(len(item) >> 8)
            elif kind in SCALARS:
                weight += 1
            elif kind in SIZED and kind is not range:
                size = len(item)
                weight += 1 + size
                kinds = types_in(budget, item)
                if kind in DICTS:
                    kinds |= types_in(budget, item.values())
                if not kinds <= SCALARS:
                    budget.work(size >> 1)
                    deeper.extend(item)
                    if kind in DICTS:
                        deeper.extend(item.values())
            elif kind in KNOWN:
                weight += 1
            else:
                raise foreign(item)
        if not deeper:
            return weight
        level = deeper
    raise BudgetExceeded("depth", MOST_DEPTH)


def charge_comparison(budget: Budget, left: Any, right: Any) -> None:
    """Pays for any of the six comparisons of two values."""
    _charge_pairs(budget, [(left, right)])


def _charge_pairs(budget: Budget, level: list[tuple[Any, Any]]) -> None:
    for _ in range(MOST_DEPTH):
        deeper: list[tuple[Any, Any]] = []
        for left, right in level:
            kind, other = type(left), type(right)
            if kind not in KNOWN or other not in KNOWN:
                raise foreign(right if kind in KNOWN else left)
            if kind is str and other is str:
                budget.work(min(len(left), len(right)) >> 8)
            elif kind in SEQUENCES and kind is other:
                size = min(len(left), len(right))
                if not types_in(budget, left) | types_in(budget, right) <= SCALARS:
                    budget.work(size >> 1)
                    deeper.extend(zip(left, right, strict=False))
            elif kind in DICTS and other in DICTS:
                if len(left) == len(right):
                    charge_keys_of(budget, left)
                    charge_keys_of(budget, right)
                    budget.work(len(left) >> 1)
                    deeper.extend((left[key], right[key]) for key in left if key in right)
            elif kind in _SET_LIKE and other in _SET_LIKE:
                charge_keys_of(budget, left)
                charge_keys_of(budget, right)
            elif (kind in VIEWS and other in VIEWS | _SET_LIKE) or (other in VIEWS and kind in _SET_LIKE):
                weigh(budget, left)
                weigh(budget, right)
        if not deeper:
            return
        level = deeper
    raise BudgetExceeded("depth", MOST_DEPTH)


def charge_search(budget: Budget, wanted: Any, values: Any) -> None:
    """Pays for comparing one value with each item of a list or another container, in turn."""
    kind = type(wanted)
    size = length(values)
    budget.work(size >> 3)
    kinds = types_in(budget, values)
    if kind is str:
        if str in kinds:
            budget.work(size * len(wanted) >> 8)
    elif kind not in SCALARS and not kinds <= SCALARS:
        budget.work(size >> 1)
        _charge_pairs(budget, [(wanted, value) for value in values])


def charge_sorting(budget: Budget, values: Collection[Any]) -> None:
    """Pays for the comparisons of sorting: n log n of them, each as dear as the heaviest value."""
    kinds = types_in(budget, values)
    comparisons = len(values) * len(values).bit_length()
    if kinds <= NUMBERS:
        budget.work(comparisons >> 4)
    elif kinds == {str}:
        budget.work((comparisons >> 3) * (1 + (max(map(len, values)) >> 8)))
    else:
        budget.work(len(values))
        heaviest = max((weigh(budget, value) for value in values), default=0)
        budget.work(comparisons * (heaviest + 3) >> 2)


def charge_text(budget: Budget, value: Any, *, json: bool = False, separator: int = 2, indent: int = 0) -> None:
    """Pays for the text of a value: `repr`, or with `json` what `json.dumps` writes. Values are written as a tree."""
    level = [value]
    for depth in range(MOST_DEPTH):
        around = separator + 2 + indent * (depth + 1)
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                _charge_quoted(budget, item, json)
            elif kind is int:
                _charge_digits(budget, item)
            elif kind in SCALARS:
                budget.make(32)
            elif kind is range or kind is slice:
                budget.make(64)
                deeper.extend((item.start, item.stop, item.step))
            elif kind in SIZED and not (json and kind not in DICTS | SEQUENCES):
                size = len(item)
                budget.work((size >> (0 if json else 1)) + 1)
                budget.make(32 + 2 * around * size)
                deeper.extend(item)
                if kind in DICTS:
                    deeper.extend(item.values())
            elif kind in ITERATORS and not json:
                hint = "write list(...) around it"
                raise ExpressionFault(f"the text of a {kind.__name__} object holds an address", hint)
            elif kind not in KNOWN:
                raise foreign(item)
        if not deeper:
            return
        level = deeper
    raise BudgetExceeded("depth", MOST_DEPTH)


def _charge_quoted(budget: Budget, text: str, json: bool) -> None:
    budget.work(len(text) >> 8)
    if text.isprintable() and (text.isascii() or not json):
        budget.make((2 if text.isascii() else 8) * len(text) + 2)
    else:
        budget.make(12 * len(text) + 2 if json else 40 * len(text) + 2)


def _charge_digits(budget: Budget, number: int) -> None:
    bits = number.bit_length()
    budget.make(32 + bits // 3)
    budget.integer(bits)
    if bits > 512:
        budget.work((bits // 30) ** 2 >> 8)


def charge_key(budget: Budget, key: Any) -> None:
    """Pays for hashing one key, and for comparing it with one equal to it."""
    kind = type(key)
    if kind is str:
        budget.work(len(key) >> 8)
    elif kind is tuple:
        budget.work(weigh(budget, key) >> 2)


def charge_keys_of(budget: Budget, keys: Any) -> None:
    """Pays for looking up every key of a dict, a set or a view of keys in another one."""
    budget.work(len(keys) >> 3)
    suspects = [key for key in keys if _may_collide(key)] if not types_in(budget, keys) <= _PLAIN_KEYS else []
    if suspects:
        budget.work(len(suspects))
        heaviest = max(weigh(budget, key) for key in suspects)
        same = Counter(map(hash, suspects))
        budget.work(sum(count * count for count in same.values() if count > 1) * heaviest)


def _may_collide(key: Any) -> bool:
    kind = type(key)
    return kind is tuple or (kind is int and not -_HONEST < key < _HONEST)


class Keys:
    """The keys that go into one dict or set while it is built: pays for each before it goes in."""

    __slots__ = ("_budget", "_same", "_seen")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._seen: set[Any] = set()
        self._same: dict[int, int] = {}

    def pay(self, key: Any) -> None:
        """Pays for one key. Does not raise for one that cannot be hashed: that is left to Python, and its words."""
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
        weight = weigh(budget, key)
        budget.work(weight >> 2)
        try:
            hashed = hash(key)
        except TypeError:
            return
        same = self._same.get(hashed, 0)
        budget.work(same * weight)
        before = len(self._seen)
        self._seen.add(key)
        if len(self._seen) > before:
            budget.make(128)
            self._same[hashed] = same + 1

    def paying(self, keys: Iterable[Any]) -> Iterator[Any]:
        """The keys one by one, each paid for."""
        for key in keys:
            self._budget.work(1)
            self._budget.make(64)
            self.pay(key)
            yield key

    def paying_for_pairs(self, pairs: Iterable[Any]) -> Iterator[Any]:
        """What `dict` is given: pairs one by one, their keys paid for. Says nothing about what is no pair."""
        for pair in pairs:
            self._budget.work(1)
            self._budget.make(100)
            kind = type(pair)
            if kind in ITERATORS:
                raise ExpressionFault("a pair given as an iterator is not supported", "write tuple(...) around it")
            if kind not in KNOWN:
                raise foreign(pair)
            if kind in SIZED and length(pair) == 2:
                self.pay(next(iter(pair)))
            yield pair
