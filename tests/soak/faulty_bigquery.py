"""Random histories into BigQuery through gates that refuse, delay, cut and lose answers at random, run after run.

`python -m tests.soak.faulty_bigquery --rounds 20 --seed 7 --mode batch` runs one from SQLite; the seed is printed.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import replicator_target_bigquery.merge_flush.consumer  # noqa: F401 - registers the places where runs are killed
from tests.services.bigquery.emulators import Emulators, start
from tests.services.bigquery.gate import Gate
from tests.services.bigquery.random_faults import Chaos
from tests.services.processes import LOOPBACK
from tests.soak.history import Transaction
from tests.soak.soak import Soak
from tests.soak.sources import Source, Sqlite
from tests.soak.targets import BigQuery

SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "batch": {"loadInterval": 1},  # so that changes are held
    "merge-flush": {
        "mode": "merge-flush",
        "upsertEnabled": True,
        "deleteEnabled": True,
        "kafkaKeyFieldName": "recordKey",
        "mergeIntervalMs": 300,
    },
    "cdc": {"mode": "cdc"},
}
"""The modes and what each needs of the target's settings."""


class Shop(Sqlite):
    """SQLite with tables whose keys never hold NULL: only those are keys to the replicator."""

    def execute(self, transaction: Transaction) -> None:
        """Commit one transaction."""
        super().execute([s.replace("id int PRIMARY KEY", "id int NOT NULL PRIMARY KEY") for s in transaction])


def run(
    source: Source,
    emulators: Emulators,
    mode: str,
    folder: Path,
    rounds: int,
    seed: int,
    plan: Sequence[tuple[str, str]] = (),
) -> tuple[Soak, Mapping[str, int]]:
    """Run so many rounds of `mode`, by `plan` if there is one; returns the soak, and how often each kind of fault was met.

    Raises:
        AssertionError: When source and target differ, or a run fails; with the seed.
    """
    if mode != "batch":  # both go by a key
        source.dialect = replace(source.dialect, keyless=False)
    if mode == "cdc":  # no UPDATE beside change ingestion
        source.dialect = replace(source.dialect, defaults=False, retype=None, rewrite=None)
    emulators.gate.clear()
    emulators.write_gate.clear()
    chaos, bucket = Chaos(seed), Gate(emulators.storage_port)
    bucket.chaos = chaos.of_request
    endpoints = {"storageEndpoint": f"http://{LOOPBACK}:{bucket.port}"}
    if mode == "cdc":
        endpoints["storageWriteEndpoint"] = emulators.streaming.endpoint
    soak = Soak(source, BigQuery(emulators, **SETTINGS[mode], **endpoints), folder, seed, plan=plan)
    try:
        with chaos.before(emulators):
            soak.run(rounds)
    finally:
        bucket.close()
    return soak, chaos.met


def main() -> None:
    """Run one history from SQLite, as the command line says."""
    options = argparse.ArgumentParser(prog="python -m tests.soak.faulty_bigquery", description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--seed", type=int, default=0, help="of all choices; another one each time when left out")
    options.add_argument("--mode", choices=sorted(SETTINGS), default="batch")
    chosen = options.parse_args()
    seed = chosen.seed or random.SystemRandom().randrange(1, 10**9)
    print(f"SQLite into BigQuery, mode {chosen.mode}: {chosen.rounds} rounds, seed {seed}", flush=True)  # noqa: T201
    folder = Path(tempfile.mkdtemp(prefix="faulty-bigquery-"))
    emulators = start()
    try:
        soak, met = run(Shop(folder), emulators, chosen.mode, folder, chosen.rounds, seed)
    finally:
        emulators.stop()
    print(f"equal; stops: {dict(soak.stops)}; faults met: {dict(met)}")  # noqa: T201


if __name__ == "__main__":
    main()
