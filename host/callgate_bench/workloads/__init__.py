"""The workloads of the comparison, in the order of its table. The standard library alone.

`workload` says what one is, `scripts` what a model would do about it; `chains`, `lookups` and `heavy` have them.
`dialects` rewrites their programs for peers that want them otherwise; `services` is what their tools stand on.
"""

from __future__ import annotations

from callgate_bench.workloads import chains, heavy, lookups
from callgate_bench.workloads.services import pace
from callgate_bench.workloads.workload import Workload

__all__ = ["WORKLOADS", "pace"]

_ALL = {each.name: each for each in (*chains.WORKLOADS, *lookups.WORKLOADS, *heavy.WORKLOADS)}
_ORDER = ("monitoring", "weather", "budget", "regions", "enrich", "fan-out", "judgement", "aggregation", "large")

WORKLOADS: dict[str, Workload] = {name: _ALL[name] for name in _ORDER}
"""By name."""
