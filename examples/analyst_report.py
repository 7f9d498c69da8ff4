"""A report from real data: a CSV goes in; pandas cleans it; three plots and a cleaned CSV come out.

The program is what a model would write. It runs in the jail, and in a container of an engine of this machine. Where one
of them, or the packages, are missing, the example says so.

    callgate packages add pandas matplotlib --to packages
    python examples/analyst_report.py packages

Without a folder it takes the packages of the Python that runs it.
"""

from __future__ import annotations

import csv
import importlib.util
import struct
import sys
import tempfile
from pathlib import Path

from callgate import CallgateError, CodeResult, Limits, SyncRuntime

CITIES = Path(__file__).parent / "world" / "cities.csv"
PROGRAM = """
import pandas as pd
import matplotlib.pyplot as plt

cities = pd.read_csv("cities.csv", keep_default_na=False)  # NA is Namibia
cities["continent"] = cities.timezone.str.split("/").str[0]
clean = cities[cities.continent != "Indian"].drop_duplicates(["name", "country"])
clean = clean.sort_values("population", ascending=False)
clean.to_csv("cities_clean.csv", index=False)

largest = clean.groupby("country").population.sum().nlargest(10)
(largest / 1e6).plot.bar(title="Millions of people in large cities", figsize=(6, 4))

plt.figure(figsize=(6, 4))
clean.population.plot.hist(bins=40, log=True, title="How large cities are")

plt.figure(figsize=(8, 4))
for name, group in clean.groupby("continent"):
    plt.scatter(group.longitude, group.latitude, s=group.population / 1e6, label=name)
plt.legend()
plt.show()

display(clean.groupby("continent").agg(cities=("name", "count"), people=("population", "sum")))
{"rows": len(clean), "dropped": len(cities) - len(clean), "first": clean.name.iloc[0], "top": largest.index[0]}
"""


def packages_here() -> str:
    """The folder that pandas and matplotlib are installed in; empty if they are not."""
    found = [importlib.util.find_spec(name) for name in ("pandas", "matplotlib")]
    folders = {str(Path(spec.origin).parents[1]) for spec in found if spec is not None and spec.origin}
    return folders.pop() if None not in found and len(folders) == 1 else ""


def report(sandbox: str, packages: str) -> CodeResult:
    limits = Limits(memory_bytes=1 << 30, wall_seconds=120, cpu_seconds=60)
    with SyncRuntime(sandbox=sandbox, packages=packages, pool_size=0, limits=limits) as runtime:
        return runtime.execute_code(PROGRAM, files={"cities.csv": CITIES})


def check(run: CodeResult, folder: Path) -> None:
    """What a person gets: three pictures, a table as a page, and a CSV that has the rows that the program counted."""
    assert run.ok, run.error
    saved = {each.name: each.save(folder) for each in run.artifacts}
    pictures = [path for name, path in saved.items() if name.endswith(".png")]
    assert len(pictures) == 3
    for path in pictures:
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        print(f"  {path.name}: {width} x {height}")
        assert 400 <= width <= 2000
        assert 250 <= height <= 2000
    with saved["cities_clean.csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    print(f"  cities_clean.csv: {len(rows)} rows, from {rows[0]['name']} on")
    assert run.value == {"rows": len(rows), "dropped": len(_given()) - len(rows), "first": "Shanghai", "top": "CN"}
    assert {row["continent"] for row in rows} == {"Africa", "America", "Asia", "Australia", "Europe", "Pacific"}
    assert len({(row["name"], row["country"]) for row in rows}) == len(rows)


def _given() -> list[str]:
    return CITIES.read_text(encoding="utf-8").splitlines()[1:]


def main() -> None:
    packages = sys.argv[1] if len(sys.argv) > 1 else packages_here()
    if not packages:
        print("not shown: pandas and matplotlib are not installed: callgate packages add pandas matplotlib --to DIR")
        return
    for sandbox in ("jail", "docker"):
        try:
            run = report(sandbox, packages)
        except CallgateError as reason:
            print(f"not shown: in {sandbox}: {reason}")
            continue
        print(f"In {run.sandbox.partition(':')[0]}, the model reads:\n{run.for_model()}\nAnd people get:")
        with tempfile.TemporaryDirectory() as folder:
            check(run, Path(folder))


if __name__ == "__main__":
    main()
