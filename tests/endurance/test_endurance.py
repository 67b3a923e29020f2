"""A replicator is right, as fast and as small after many rounds of changes, kills and errors as at their beginning.

`make endurance` runs every source into Delta and BigQuery, for 200 rounds and 100,000 commits, or two hours; its results are in
`bench/endurance/`, also of a pair that was not flat or was too slow. A pair that has one is not run again: delete its file. `make test` tries a few short rounds.
A run that is too short to judge a measure (`measures.BASES`) says so and ends as skipped, once all else holds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.endurance.endurance import Endurance
from tests.endurance.measured_targets import Lake, MeasuredTarget, Warehouse
from tests.endurance.measures import CLEAN_UP_SECONDS, NOT_HELD, Sample, Tenths, tenths, too_short
from tests.soak.targets import BigQuery, Delta
from tests.soak.test_random_histories import make_source

ROUNDS = int(os.environ.get("ENDURANCE_ROUNDS") or 0)
COMMITS = int(os.environ.get("ENDURANCE_COMMITS") or 100_000)
MINUTES = float(os.environ.get("ENDURANCE_MINUTES") or 120.0)
SECONDS = float(os.environ.get("ENDURANCE_SECONDS") or 18.0)
SEED = 20261123
RESULTS = Path(__file__).parents[2] / "bench" / "endurance"
_SOURCES = ("sqlite", "postgres", "mysql", "mariadb", "kafka")
PAIRS = (
    [(source, target) for target in ("delta", "bigquery") for source in _SOURCES] if ROUNDS else [("sqlite", "delta")]
)
_FEW_ROUNDS, _FEW_SECONDS, _FEW_COMMITS = 4, 0.5, 10
_LARGEST_ROUND = 120.0
_FEWER = {"kafka": 20, "bigquery": 50}
"""By so much fewer commits are wanted where a commit is a slice of a topic, or goes through the emulator, which takes a second."""
# In an hour thirty compactions and fifteen clean-ups of each table: about as many commits between them as there are in a week.
_WEEK = {"optimizeIntervalSeconds": 120, "vacuumIntervalSeconds": CLEAN_UP_SECONDS, "dropTables": "drop"}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.timeout(1200 + 2 * ROUNDS * (SECONDS + _LARGEST_ROUND))
def test_a_replicator_stays_right_fast_and_small(
    pair: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    result = RESULTS / f"{'-'.join(pair)}.json"
    if ROUNDS and result.exists():
        pytest.skip(f"{result} exists")
    with (tmp_path / "rounds").open("w") as rounds:
        endurance = Endurance(
            make_source(pair[0], request, tmp_path),
            _target(pair[1], request, tmp_path),
            tmp_path,
            SEED,
            lambda line: print(line, file=rounds, flush=True),
        )
        commits = COMMITS // max(_FEWER.get(part, 1) for part in pair)
        if ROUNDS:
            endurance.run(ROUNDS, SECONDS, commits, MINUTES)
        else:
            endurance.run(_FEW_ROUNDS, _FEW_SECONDS, _FEW_COMMITS)
    short = too_short(endurance.samples) if ROUNDS else {}
    if ROUNDS:
        measured = tenths(endurance.samples)
        result.parent.mkdir(exist_ok=True)
        result.write_text(json.dumps(_document(endurance, measured), indent=2) + "\n")
        assert {name for name, value in measured.items() if not value.is_flat} - NOT_HELD - short.keys() == set()
    assert endurance.commits >= (commits if ROUNDS else _FEW_COMMITS)
    assert endurance.rounds.total() >= (ROUNDS or _FEW_ROUNDS)
    if held := short.keys() - NOT_HELD:
        pytest.skip("too short to judge: " + "; ".join(f"{name}: {short[name]}" for name in sorted(held)))


def _target(name: str, request: pytest.FixtureRequest, folder: Path) -> MeasuredTarget:
    if name == "delta":
        return Lake(Delta(**_WEEK), folder / "lake")
    emulators = request.getfixturevalue("bigquery_emulators")
    return Warehouse(BigQuery(emulators), emulators)


def _document(endurance: Endurance, measured: Mapping[str, Tenths]) -> dict[str, object]:
    return {
        "seed": SEED,
        "roundSeconds": SECONDS,
        "rounds": dict(endurance.rounds),
        "commits": endurance.commits,
        "firstAndLastTenth": {name: asdict(value) for name, value in measured.items()},
        "tooShortToJudge": dict(too_short(endurance.samples)),
        "samples": [asdict(sample) for sample in endurance.samples],
    }


def test_a_measure_that_grows_by_more_than_a_fifth_is_not_flat() -> None:
    samples = [Sample(0.0 if n % 5 == 0 else 100 + n, 1000, 300, 50, 10, 5, 100, 2, 2 + n / 10, 5) for n in range(40)]
    measured = tenths(samples)
    assert measured["python_mb"] == Tenths(108.5, 138)
    assert measured["commit_cpu_ms"].last == pytest.approx(2 * measured["commit_cpu_ms"].first)
    assert {name for name, value in measured.items() if not value.is_flat} == {
        "python_mb",
        "commit_cpu_ms",
        "commit_probes",
    }


def test_processor_time_is_held_by_what_the_same_work_takes_then() -> None:
    slower = [Sample(100, 1000, 300, 50, 10, 5, 100, 2, 2 + n / 10, 5 * (2 + n / 10)) for n in range(40)]
    assert not tenths(slower)["commit_cpu_ms"].is_flat
    held = tenths(slower)["commit_probes"]
    assert [held.first, held.last] == pytest.approx([2, 2])


def test_files_are_held_for_the_rate_of_the_commits_that_left_them() -> None:
    faster = [Sample(100, 1000, 300, 50 * (1 + n // 20), 10, 5, 100 * (1 + n // 20), 2, 2, 5) for n in range(40)]
    assert not tenths(faster)["files"].is_flat
    assert tenths(faster)["files_kept"].is_flat
    more = [Sample(100, 1000, 300, 50 * (1 + n // 20), 10, 5, 100, 2, 2, 5) for n in range(40)]
    assert not tenths(more)["files_kept"].is_flat


def test_a_run_that_is_too_short_to_judge_says_of_which_measures_and_why() -> None:
    """Four rounds after a kill have other memory than four before one, and a minute without a clean-up has more files than one with it."""
    one = Sample(100, 1000, 300, 50, 10, 5, 100, 18, 2, 5)
    assert too_short([one] * 180) == {}
    few = too_short([one] * 60)
    assert few.keys() == tenths([one] * 60).keys()
    assert few["java_mb"] == "tenths of 4 rounds instead of 9"
    assert (
        few["files_kept"]
        == "tenths of 4 rounds instead of 9, tenths of 72 s instead of 240, a warm-up of 216 s instead of 420"
    )
    quick = too_short([replace(one, seconds=3)] * 180)
    assert quick.keys() == {
        "files",
        "files_kept",
        "state_files",
        "state_kb",
        "commit_ms",
        "commit_cpu_ms",
        "commit_probes",
    }
    assert quick["state_kb"] == "a warm-up of 108 s instead of 180"
