"""Who waits for whom: waves, and cycles in words. Knows indices; not what a step does.

Both are Kahn's algorithm and walks over arrays, never recursion: a chain of 100,000 steps is fine.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["cycles", "waves"]


def waves(needs: Sequence[Sequence[int]]) -> list[int]:
    """The wave of every step: 0 for those that wait for nothing, else one more than the latest they wait for.

    Args:
        needs: for every step the steps it waits for.

    Returns:
        Steps in a cycle, and those that wait for one, get -1.
    """
    count = len(needs)
    waves = [0] * count
    left = [len(each) for each in needs]
    followers: list[list[int]] = [[] for _ in range(count)]
    for step, each in enumerate(needs):
        for need in each:
            followers[need].append(step)
    ready = [step for step in range(count) if not left[step]]
    for step in ready:
        wave = waves[step] + 1
        for follower in followers[step]:
            if waves[follower] < wave:
                waves[follower] = wave
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    for step in range(count):
        if left[step]:
            waves[step] = -1
    return waves


def cycles(needs: Sequence[Sequence[int]], wave: Sequence[int], most: int = 10) -> list[list[int]]:
    """Some cycles, one at least of every knot that can be walked into; each in the order in which its steps wait.

    Args:
        needs: as for `waves`.
        wave: what `waves` returned.
        most: so many are looked for.
    """
    found: list[list[int]] = []
    walk_of: dict[int, int] = {}
    for start in range(len(needs)):
        if wave[start] != -1 or start in walk_of:
            continue
        walk: list[int] = []
        place: dict[int, int] = {}
        step: int | None = start
        while step is not None and step not in walk_of:
            walk_of[step] = start
            place[step] = len(walk)
            walk.append(step)
            step = next((need for need in needs[step] if wave[need] == -1), None)
        if step is not None and walk_of[step] == start:
            found.append(walk[place[step] :])
            if len(found) >= most:
                break
    return found
