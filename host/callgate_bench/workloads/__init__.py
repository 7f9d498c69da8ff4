"""The workloads of the comparison, in the order of its table. The standard library alone.

`workload` says what one is, `scripts` what a model would do about it; each has a file of its own. `dialects` rewrites
their programs for peers that want them otherwise, `pacing` has the tools' simulated waits, `places` the real places.
"""

from __future__ import annotations

from callgate_bench.workloads import (
    aggregation,
    budget,
    enrich,
    fan_out,
    judgement,
    large,
    monitoring,
    regions,
    weather,
)
from callgate_bench.workloads.pacing import pace
from callgate_bench.workloads.workload import Workload

__all__ = ["WORKLOADS", "pace"]

WORKLOADS: dict[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD
    for module in (monitoring, weather, budget, regions, enrich, fan_out, judgement, aggregation, large)
}
"""By name."""
