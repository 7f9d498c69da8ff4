"""The workloads of the comparison, in the order of its table. The standard library alone.

`workload` says what one is, `scripts` what a model would do about it; `chains`, `lookups` and `heavy` have them.
`dialects` rewrites their programs for peers that want them otherwise; `services` is what their tools stand on.
"""

from __future__ import annotations

from callgate_bench.workloads.chains import enrich, judgement, monitoring
from callgate_bench.workloads.heavy import aggregation, large
from callgate_bench.workloads.lookups import budget, fan_out, regions, weather
from callgate_bench.workloads.services import pace
from callgate_bench.workloads.workload import Workload

__all__ = ["WORKLOADS", "pace"]

_ORDER = (monitoring, weather, budget, regions, enrich, fan_out, judgement, aggregation, large)
WORKLOADS: dict[str, Workload] = {each.name: each for each in _ORDER}
"""By name."""
