"""How sure a share is, how sure a difference of shares, and how many samples an answer needs. Arithmetic only; the
standard library's normal distribution will do for it.

Sources: Wilson (1927) for one share; Newcombe (1998, Statistics in Medicine 17, 873-890, method 10) for the difference
of two; Bonett and Price (2012, Journal of Educational and Behavioral Statistics 37, 479-488) for paired ones; Fleiss,
Levin and Paik (2003, chapter 4) for the number of samples, with the correction for continuity, which suits exact tests.
"""

from __future__ import annotations

import math
from statistics import NormalDist

__all__ = ["difference_interval", "paired_interval", "power_of", "samples_needed", "wilson"]

_NORMAL = NormalDist()


def wilson(successes: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """The share that may lie behind what was seen, from and to; (0, 1) without samples.

    Args:
        successes: from 0 to `samples`.
        samples: 0 or more.
        confidence: of the interval, both sides.
    """
    if not samples:
        return 0.0, 1.0
    z = _z(confidence)
    share, square = successes / samples, z * z / samples
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / samples + square / (4 * samples))
    return max(0.0, middle - half), min(1.0, middle + half)


def difference_interval(
    first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95
) -> tuple[float, float]:  # fmt: skip
    """The second share less the first, from and to; (-1, 1) where one has no samples.

    Args:
        first: successes and samples.
        second: the same.
        confidence: of the interval.
    """
    if not first[1] or not second[1]:
        return -1.0, 1.0
    p, q = first[0] / first[1], second[0] / second[1]
    (p_low, p_high), (q_low, q_high) = wilson(*first, confidence), wilson(*second, confidence)
    below = math.hypot(q - q_low, p_high - p)
    above = math.hypot(q_high - q, p - p_low)
    return max(-1.0, q - p - below), min(1.0, q - p + above)


def paired_interval(
    pairs: int, only_first: int, only_second: int, confidence: float = 0.95
) -> tuple[float, float]:  # fmt: skip
    """The second share less the first where both were seen on the same things; (-1, 1) without pairs.

    Args:
        pairs: all of them.
        only_first: in which the first alone succeeded.
        only_second: in which the second alone did.
        confidence: of the interval.
    """
    if not pairs:
        return -1.0, 1.0
    one, other = (only_first + 1) / (pairs + 2), (only_second + 1) / (pairs + 2)
    half = _z(confidence) * math.sqrt((one + other - (other - one) ** 2) / (pairs + 2))
    return max(-1.0, other - one - half), min(1.0, other - one + half)


def samples_needed(rate: float, difference: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Samples in each arm with which a difference of rates is found, as often as `power` says.

    Args:
        rate: of the one arm, above 0 and below 1.
        difference: of the other's; `rate` with it lies between 0 and 1, too.
        alpha: how often a difference is seen where there is none.
        power: how often it is seen where there is one.
    """
    other = rate + difference
    middle = (rate + other) / 2
    spread = _z(1 - alpha) * math.sqrt(2 * middle * (1 - middle))
    spread += _NORMAL.inv_cdf(power) * math.sqrt(rate * (1 - rate) + other * (1 - other))
    plain = (spread / difference) ** 2
    corrected = plain / 4 * (1 + math.sqrt(1 + 4 / (plain * abs(difference)))) ** 2
    return math.ceil(corrected)


def power_of(rate: float, difference: float, samples: int, *, alpha: float = 0.05) -> float:
    """How often a difference of rates is found with so many samples in each arm; `samples_needed` turned around.

    Args:
        rate: of the one arm.
        difference: of the other's.
        samples: in each arm.
        alpha: how often a difference is seen where there is none.
    """
    size, other = abs(difference), rate + difference
    plain = (samples - 1 / size) ** 2 / samples if samples > 1 / size else 0.0
    middle = (rate + other) / 2
    found = size * math.sqrt(plain) - _z(1 - alpha) * math.sqrt(2 * middle * (1 - middle))
    spread = math.sqrt(rate * (1 - rate) + other * (1 - other))
    return _NORMAL.cdf(found / spread) if spread else 1.0


def _z(confidence: float) -> float:
    return _NORMAL.inv_cdf((1 + confidence) / 2)
