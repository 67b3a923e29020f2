"""Whatever happens between two stops, and however a run stops, target and source are equal afterwards, at every later run.

`make soak ROUNDS=200 SEED=1` runs every source into every target; `make test` a few rounds of each source.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.bigquery.emulators import Emulators
from tests.services.kafka.fixtures import PrivateConnect, PrivateKafka
from tests.services.postgres.server import PostgresDatabase
from tests.soak.soak import Soak
from tests.soak.sources import Debezium, Mysql, Postgres, Source, Sqlite
from tests.soak.targets import BigQuery, Delta, Iceberg, Target

IS_WHOLE = bool(os.environ.get("SOAK_ROUNDS"))
ROUNDS = int(os.environ.get("SOAK_ROUNDS") or 5)
SEED = int(os.environ.get("SOAK_SEED") or 0) or random.SystemRandom().randrange(1, 10**9)
_SECONDS_OF_A_ROUND = 60
_FEW = {
    ("sqlite", "bigquery"),
    ("postgres", "delta"),
    ("mysql", "bigquery"),
    ("mariadb", "delta"),
    ("kafka", "delta"),
    ("postgres", "iceberg"),
    ("mysql", "iceberg"),
}
_ALL = [
    (source, target)
    for source in ("sqlite", "postgres", "mysql", "mariadb", "kafka")
    for target in ("delta", "bigquery", "iceberg")
]
PAIRS = [pair for pair in _ALL if IS_WHOLE or pair in _FEW]

pytestmark = pytest.mark.timeout(600 + ROUNDS * _SECONDS_OF_A_ROUND)


def _target(name: str, request: pytest.FixtureRequest) -> Target:
    if name == "delta":
        return Delta()
    if name == "iceberg":
        return Iceberg(SEED)
    emulators: Emulators = request.getfixturevalue("bigquery_emulators")
    emulators.gate.clear()
    return BigQuery(emulators)


def make_source(name: str, request: pytest.FixtureRequest, folder: Path) -> Source:
    make: dict[str, Callable[[], Source]] = {
        "sqlite": lambda: Sqlite(folder),
        "postgres": lambda: Postgres(request.getfixturevalue("postgres_database")),
        "mysql": lambda: Mysql(request.getfixturevalue("mysql_database")),
        "mariadb": lambda: Mysql(request.getfixturevalue("mariadb_database")),
        "kafka": lambda: _debezium(request),
    }
    return make[name]()


def _debezium(request: pytest.FixtureRequest) -> Debezium:
    start_broker: PrivateKafka = request.getfixturevalue("private_kafka")
    start_worker: PrivateConnect = request.getfixturevalue("private_connect")
    database: PostgresDatabase = request.getfixturevalue("postgres_database")
    broker = start_broker()
    return Debezium(database, broker, start_worker(broker), {})


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_target_equals_source_after_every_stop(
    pair: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    soak = Soak(make_source(pair[0], request, tmp_path), _target(pair[1], request), tmp_path, SEED)
    soak.run(ROUNDS)
    print(f"{' into '.join(pair)}: {ROUNDS} rounds equal, seed {SEED}; stops: {dict(soak.stops)}")  # noqa: T201


_SHORT = (("killed", "structure first"), ("failpoint", ""), ("clean", ""))


@pytest.mark.parametrize("source", ["postgres", "mysql"])
def test_iceberg_equals_source_after_a_kill_a_named_point_and_a_clean_run(
    source: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A short chain; the kill comes while or after tables are copied, the point is one of all."""
    target = Iceberg(SEED + (source == "mysql"))  # one of both has a branch
    soak = Soak(make_source(source, request, tmp_path), target, tmp_path, SEED, plan=_SHORT)
    soak.run(len(_SHORT))
