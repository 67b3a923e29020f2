"""A target that may not be written any more: metrics, status, an alert and a notification say so soon; nothing is lost or doubled.

Rights are taken by the file system from a run that is not root's, by a store and by BigQuery, which answer 403.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.error
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from replicator_runtime.monitoring.alerts import rules
from tests.crash.object_store.stores import on_cloud_storage
from tests.end_to_end.accounts.another_account import as_another_account, give
from tests.end_to_end.comparison import delta_rows, table_rows
from tests.end_to_end.replicator import COMMAND, Replicator, postgres_source
from tests.runtime.exposition.conftest import parsed
from tests.runtime.notices.webhook import Webhook, serving
from tests.services.artifacts import delta_jars
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.bigquery.gate import Fault as Refusal
from tests.services.bigquery.gate import Request
from tests.services.gcs.server import GcsServer
from tests.services.http_gate import Fault
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import LOOPBACK, free_port, scratch_folder
from tests.services.prometheus.server import Prometheus
from tests.services.spark.session import SMALL

_WITHIN = 15.0
_RULE_WAITS = 2.0
"""For how long the condition of ReplicatorRunGone holds before it fires, as the rules are here: seconds for minutes."""
TABLES = ("item", "note")
_MANY = 10**5


@dataclass(frozen=True)
class Place:
    """Where the copies are, and who decides about rights on it.

    Attributes:
        folder: Of the replicator.
        target: The target stage.
        code: Of the error without rights.
        deny: Takes the right to write.
        allow: Gives it back.
        keys: The keys in a table's copy.
        settings: Further keys of the pipeline.
        command: What is run.
        environment: Of it.
    """

    folder: Path
    target: tuple[str, Mapping[str, Any]]
    code: str
    deny: Callable[[], object]
    allow: Callable[[], object]
    keys: Callable[[str], list[int]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = COMMAND
    environment: Mapping[str, str] = field(default_factory=dict)


def _folder() -> Place:
    """A folder that the run's account owns; what it may do there is the file system's to say."""
    command = (*as_another_account(), *COMMAND)
    folder = scratch_folder("rights")
    jars = folder / "cache" / "replicator" / "jars"
    for made in (jars, folder / "lake", folder / "tmp"):
        made.mkdir(parents=True)
    for jar in delta_jars():
        shutil.copy(jar, jars)
    give(folder)
    lake = folder / "lake"

    def chmod(how: str) -> None:
        subprocess.run(["chmod", "-R", how, lake], check=True)

    return Place(
        folder,
        ("delta", {"path": str(lake)}),
        "RPL-3403",
        lambda: chmod("a-w"),
        lambda: chmod("u+w"),
        lambda table: sorted(key for (key,) in delta_rows(lake / "public" / table, ["id"])),
        command=command,
        environment={"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")},
    )


def _cloud_storage(server: GcsServer, bucket: str, folder: Path) -> Place:
    """A bucket that answers uploads with 403."""
    store = on_cloud_storage(server, bucket)

    def keys(table: str) -> list[int]:
        path = f"{store.readable}/lake/public/{table}"
        there = DeltaTable.is_deltatable(path, dict(store.options))
        found = DeltaTable(path, storage_options=dict(store.options)) if there else None
        return sorted(key for (key,) in table_rows(found, ["id"])) if found else []

    return Place(
        folder,
        ("delta", {"path": f"{store.root}/lake"}),
        "RPL-3403",
        lambda: server.plan(Fault("POST", status=403, times=_MANY), Fault("PUT", status=403, times=_MANY)),
        server.clear,
        keys,
        settings={"spark": {"master": "local[2]", "conf": {**SMALL, **store.spark}}},
    )


def _bigquery(emulators: Emulators, folder: Path) -> Place:
    """A dataset in which the service account may not run jobs."""
    dataset = f"d{uuid.uuid4().hex[:12]}"

    def starts_a_job(request: Request) -> bool:
        return request.method == "POST"

    def keys(table: str) -> list[int]:
        try:
            found = rows(emulators, f"SELECT id FROM `{PROJECT}`.`{dataset}`.`{table}`")
        except urllib.error.HTTPError:  # it is not there yet
            return []
        return sorted(int(str(key)) for (key,) in found)

    refused = Refusal(status=403, reason="accessDenied")
    return Place(
        folder,
        ("bigquery", target_settings(emulators, dataset)),
        "RPL-6513",
        lambda: emulators.gate.plan(*[refused] * _MANY, on=starts_a_job),
        emulators.gate.clear,
        keys,
    )


@pytest.fixture(params=["folder", "cloud storage", "bigquery"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    found = request.getfixturevalue
    if request.param == "folder":
        made = _folder()
    elif request.param == "cloud storage":
        made = _cloud_storage(found("gcs_server"), found("gcs_bucket"), tmp_path)
    else:
        made = _bigquery(found("bigquery_emulators"), tmp_path)
    try:
        yield made
    finally:
        made.allow()


@pytest.mark.timeout(1200)
def test_four_outputs_say_within_15_seconds_that_a_target_may_not_be_written_and_recover(
    place: Place, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    (tmp_path / "rules.yml").write_text(rules(minute="s"))
    for table in TABLES:
        postgres_database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(60))")
    with ExitStack() as opened:
        webhook = opened.enter_context(serving(Webhook()))
        replicator = _replicator(place, postgres_database, address, webhook)
        prometheus = opened.enter_context(Prometheus(tmp_path, [address], tmp_path / "rules.yml"))
        running = replicator.start()
        opened.callback(running.kill)
        for number in (1, 2):  # by the copy, then by the log
            _change(postgres_database, number)
            _await_keys(place, number)

        place.deny()
        began = time.monotonic()
        _change(postgres_database, 3)
        found = _said(place, replicator, prometheus, webhook, began)
        assert running.wait().status == 3
        late = {n: seconds for n, seconds in found.items() if seconds > _WITHIN + _RULE_WAITS * (n == "alert")}
        assert not late, f"late: {late} of {found}"

        place.allow()
        running = replicator.start()
        opened.callback(running.kill)
        _change(postgres_database, 4)
        _await_keys(place, 4)
        _until(lambda: any("again" in t or "no longer" in t for t in webhook.titles), "no message that it is over")
        _until(lambda: "ReplicatorRunGone" not in prometheus.firing(), "the alert goes on")
        assert _status(replicator)["phase"] == "streaming"
        running.stop()
    replicator.until_current()
    assert [place.keys(table) for table in TABLES] == [[1, 2, 3, 4]] * 2
    assert _inserts(replicator) == 8, "each is counted once"


def _replicator(place: Place, database: PostgresDatabase, address: str, webhook: Webhook) -> Replicator:
    settings = {
        "tables": [{"schema": "public", "table": table} for table in TABLES],
        "batch": {"maxIntervalSeconds": 0.5},
        "metrics": {"address": address, "textfile": str(place.folder / "shop.prom")},
        "notifications": [{"url": f"json://{LOOPBACK}:{webhook.port}/hook"}],
        **place.settings,
    }
    source = postgres_source(database)
    return Replicator(
        place.folder, source, place.target, settings, command=place.command, environment=place.environment
    )


def _inserts(replicator: Replicator) -> int:
    """How many are counted, rows of copies among them."""
    tables = _status(replicator)["metrics"]["tables"].values()
    return sum(n for one in tables for name, n in one["counters"].items() if name.endswith("dml.insert"))


def _change(database: PostgresDatabase, number: int) -> None:
    """One more row in each table."""
    for table in TABLES:
        database.execute(f"INSERT INTO {table} VALUES ({number}, 'x')")


def _said(
    place: Place, replicator: Replicator, prometheus: Prometheus, webhook: Webhook, began: float
) -> dict[str, float]:
    """Output → after how many seconds it says what is wrong."""
    file = place.folder / "shop.prom"
    failed = ("phase", "failed")
    looks: dict[str, Callable[[], bool]] = {
        "metrics": lambda: any(
            name == "replicator_phase" and failed in labels and value == 1
            for (name, labels), value in parsed(file.read_text()).items()
        ),
        "alert": lambda: "ReplicatorRunGone" in prometheus.firing(),
        "notification": lambda: any("has ended with an error" in title for title in webhook.titles),
        "status": lambda: (_status(replicator)["lastError"] or {}).get("code") == place.code,
    }
    found: dict[str, float] = {}
    while looks:
        for name, look in list(looks.items()):
            at = time.monotonic()
            if look():
                found[name] = at - began
                del looks[name]
        assert time.monotonic() - began < _WITHIN + 120, f"not said: {[*looks]}, {found}, {webhook.titles}"
        time.sleep(0.2)
    return found


def _status(replicator: Replicator) -> Mapping[str, Any]:
    return dict(replicator.start_command("status", str(replicator.pipeline)).wait().envelope["data"])


def _await_keys(place: Place, most: int) -> None:
    wanted = list(range(1, most + 1))
    _until(lambda: all(place.keys(table) == wanted for table in TABLES), f"not {wanted}")


def _until(holds: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)
