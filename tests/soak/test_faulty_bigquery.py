"""Source and BigQuery are equal after every run, whatever its interfaces refuse, delay or do not answer.

`make soak` runs 20 rounds of each mode from SQLite, and of those two from Postgres that fill values from the target; `make test` three
that are killed and three that are compared, from SQLite.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.services.bigquery.emulators import Emulators
from tests.soak.faulty_bigquery import SETTINGS, Shop, run
from tests.soak.sources import Postgres, Source

IS_WHOLE = bool(os.environ.get("SOAK_ROUNDS"))
PLAN = (
    ()
    if IS_WHOLE
    else (*[("killed", "structure first")] * 3, ("clean", "structure first"), ("clean", ""), ("clean", ""))
)
ROUNDS = min(20, int(os.environ.get("SOAK_ROUNDS") or len(PLAN)))
SEED = int(os.environ.get("SOAK_SEED") or 0) or random.SystemRandom().randrange(1, 10**9)
CASES = [("sqlite", mode) for mode in sorted(SETTINGS)]
if IS_WHOLE:  # large texts that an update does not carry are not for change ingestion
    CASES += [("postgres", "batch"), ("postgres", "merge-flush")]

pytestmark = pytest.mark.timeout(600 + ROUNDS * 60)


@pytest.mark.parametrize(("database", "mode"), CASES)
def test_target_equals_source_whatever_answers_get_lost(
    request: pytest.FixtureRequest, bigquery_emulators: Emulators, tmp_path: Path, database: str, mode: str
) -> None:
    source: Source = Shop(tmp_path) if database == "sqlite" else Postgres(request.getfixturevalue("postgres_database"))
    print(f"{database} into BigQuery, mode {mode}: {ROUNDS} rounds, seed {SEED}")  # noqa: T201
    soak, met = run(source, bigquery_emulators, mode, tmp_path, ROUNDS, SEED, PLAN)
    assert IS_WHOLE or soak.stops["killed"] == 3
    assert met, "no fault was met"
    print(f"equal; stops: {dict(soak.stops)}; faults met: {dict(met)}")  # noqa: T201
