"""A replicator is right, as fast and as small after many rounds of changes, kills and errors as at their beginning.

`make endurance` runs every source into Delta, for 200 rounds and 100,000 commits, about an hour each; its results are in
`bench/endurance/`. A pair that has a result is not run again: delete its file. `make test` tries a few short rounds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.endurance.endurance import Endurance
from tests.endurance.measures import NOT_HELD, Sample, Tenths, tenths
from tests.soak.targets import Delta
from tests.soak.test_random_histories import make_source

ROUNDS = int(os.environ.get("ENDURANCE_ROUNDS") or 0)
COMMITS = int(os.environ.get("ENDURANCE_COMMITS") or 100_000)
SECONDS = float(os.environ.get("ENDURANCE_SECONDS") or 18.0)
SEED = 20261123
RESULTS = Path(__file__).parents[2] / "bench" / "endurance"
SOURCES = ("sqlite", "postgres", "mysql", "mariadb", "kafka") if ROUNDS else ("sqlite",)
_FEW_ROUNDS, _FEW_SECONDS, _FEW_COMMITS = 4, 0.5, 10
_LARGEST_ROUND = 120.0
# In an hour sixty compactions and a dozen clean-ups of each table.
_WEEK = {"optimizeIntervalSeconds": 60, "vacuumIntervalSeconds": 300, "dropTables": "drop"}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.timeout(1200 + 2 * ROUNDS * (SECONDS + _LARGEST_ROUND))
def test_a_replicator_stays_right_fast_and_small(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    result = RESULTS / f"{name}-delta.json"
    if ROUNDS and result.exists():
        pytest.skip(f"{result} exists")
    with (tmp_path / "rounds").open("w") as rounds:
        endurance = Endurance(
            make_source(name, request, tmp_path),
            Delta(**_WEEK),
            tmp_path,
            SEED,
            lambda line: print(line, file=rounds, flush=True),
        )
        endurance.run(ROUNDS or _FEW_ROUNDS, SECONDS if ROUNDS else _FEW_SECONDS, COMMITS if ROUNDS else _FEW_COMMITS)
    assert endurance.commits >= (COMMITS if ROUNDS else _FEW_COMMITS)
    assert endurance.rounds.total() >= (ROUNDS or _FEW_ROUNDS)
    if ROUNDS:
        measured = tenths(endurance.samples)
        result.parent.mkdir(exist_ok=True)
        result.write_text(json.dumps(_document(endurance, measured), indent=2) + "\n")
        assert {name for name, value in measured.items() if not value.is_flat} - NOT_HELD == set()


def _document(endurance: Endurance, measured: Mapping[str, Tenths]) -> dict[str, object]:
    return {
        "seed": SEED,
        "roundSeconds": SECONDS,
        "rounds": dict(endurance.rounds),
        "commits": endurance.commits,
        "firstAndLastTenth": {name: asdict(value) for name, value in measured.items()},
        "samples": [asdict(sample) for sample in endurance.samples],
    }


def test_a_measure_that_grows_by_more_than_a_fifth_is_not_flat() -> None:
    samples = [Sample(0.0 if n % 5 == 0 else 100 + n, 1000, 30, 20, 50, 10, 5) for n in range(40)]
    measured = tenths(samples)
    assert measured["python_mb"] == Tenths(108.5, 138)
    assert {name for name, value in measured.items() if not value.is_flat} == {"python_mb"}
