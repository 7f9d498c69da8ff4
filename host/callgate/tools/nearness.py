"""Which of many names are likely meant by a word, found in little time. Knows letters, and not what the names are of.

1. An index has, for each letter and each pair of letters, a mask: one bit for each name that has it. The masks of a
   word, added up across, count for every name how much it shares with the word: bit *i* of all counts is one number.
2. Letters and pairs are folded into `_FOLDED` numbers, so that no names can make an index large. Two that fall together
   make a name seem a little likelier; whoever asks compares the few that are left for himself.
3. Indexes are kept by the names that they are of: whoever asks again about the same ones pays for the word alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice

__all__ = ["likely"]

_MOST_NAMES = 10_000
"""Further names are not looked at."""
_MOST_FOUND = 32
_FEW = 10
"""So few names are all likely: an index would cost more than it saves."""
_LONGEST = 64
"""Letters of a name that count."""
_FOLDED = 1024
_MANY = 64
"""From so many places on, a mask is made of digits, and not bit by bit."""
_KEPT = 16


def likely(word: str, known: Iterable[str], shortest: int, longest: int) -> list[str]:
    """Names that share the most letters and pairs of letters with a word, for its length and theirs; these first.

    Upper and lower case are the same. Of at most 10 names all are likely, in the order given.

    Args:
        word: what was written.
        known: the names; 10,000 are looked at.
        shortest: a shorter name is not likely; in characters.
        longest: a longer one neither.

    Returns:
        At most 32 names.
    """
    names = tuple(islice(known, _MOST_NAMES))
    if len(names) <= _FEW:
        return [name for name in names if shortest <= len(name) <= longest]
    return _index(names).likely(word, shortest, longest)


class _Index:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = sorted(names, key=len)  # those of some lengths are one range of bits
        self._lengths = list(map(len, self._names))
        having: dict[str, list[int]] = {}
        for place, name in enumerate(self._names):
            for piece in _pieces(name):
                having.setdefault(piece, []).append(place)
        self._masks = [0] * _FOLDED
        rare: list[list[int]] = [[] for _ in range(_FOLDED)]
        for piece, places in having.items():
            if len(places) < _MANY:
                for part in _parts(piece):
                    rare[part] += places
            else:
                mask = self._mask(places)
                for part in _parts(piece):
                    self._masks[part] |= mask
        for part, places in enumerate(rare):
            self._masks[part] |= self._mask(places)

    def likely(self, word: str, shortest: int, longest: int) -> list[str]:
        parts = set().union(*map(_parts, _pieces(word)))
        among = _below(bisect_right(self._lengths, longest)) & ~_below(bisect_left(self._lengths, shortest))
        counts = _added([self._masks[part] for part in parts])
        found = _places(_most(counts, among))
        columns = [bits.to_bytes(len(self._names) // 8 + 1, "little") for bits in counts]
        rated = []
        for place in found:
            byte, bit = divmod(place, 8)
            shared = sum((column[byte] >> bit & 1) << power for power, column in enumerate(columns))
            if shared:
                rated.append((-shared / (len(word) + self._lengths[place]), place))
        return [self._names[place] for _, place in sorted(rated)]

    def _mask(self, places: Sequence[int]) -> int:
        if len(places) < _MANY:
            mask = 0
            for place in places:
                mask |= 1 << place
            return mask
        digits = bytearray(b"0") * len(self._names)
        for place in places:
            digits[~place] = 49  # "1"
        return int(digits, 2)


@lru_cache(maxsize=_KEPT)
def _index(names: tuple[str, ...]) -> _Index:
    return _Index(names)


def _pieces(name: str) -> list[str]:
    """Names have their pieces in common; what is in one is worked out once."""
    return name[:_LONGEST].lower().replace(".", "_").replace("-", "_").split("_")


def _parts(piece: str) -> set[int]:
    """Its letters, and its pairs of letters, its beginning and its end among them."""
    data = piece.encode(errors="surrogatepass")
    pairs = {(one * 37 + other) % _FOLDED for one, other in zip(b"\0" + data, data + b"\0", strict=True)}
    return pairs.union(data)


def _below(place: int) -> int:
    return (1 << place) - 1


def _added(masks: list[int]) -> list[int]:
    """The sums of the bits at each place, in binary: the lowest digits of all, then the next. Three numbers of one
    weight make one of that weight and one of the next: carry-save addition."""
    digits = []
    while masks:
        carried = []
        while len(masks) > 1:
            one, other, third = masks.pop(), masks.pop(), masks.pop() if masks else 0
            either = one ^ other
            masks.append(either ^ third)
            carried.append(one & other | either & third)
        digits.append(masks[0])
        masks = carried
    return digits


def _most(digits: list[int], among: int) -> int:
    """The places of the largest sums, at most `_MOST_FOUND`."""
    found = 0
    for bits in reversed(digits):
        larger = among & bits
        if (found | larger).bit_count() <= _MOST_FOUND:
            found |= larger
            among &= ~bits
        else:
            among = larger
    for place in islice(_places(among), _MOST_FOUND - found.bit_count()):
        found |= 1 << place
    return found


def _places(bits: int) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
