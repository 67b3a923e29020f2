"""A frozen source, a refused value and a target that cannot be written: metrics, status, alerts and notifications say so soon, and recover.

The servers are real. None of it, nor the log, nor the lineage, has a value of a row or a secret.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from replicator_runtime.monitoring.alerts import rules
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, Running, mysql_source, postgres_source
from tests.runtime.exposition.conftest import parsed
from tests.runtime.notices.webhook import Webhook, serving
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import LOOPBACK, free_port
from tests.services.prometheus.server import Prometheus

_WITHIN = 15.0
_RULE_WAITS = {
    "ReplicatorRunFails": 2.0,
    "ReplicatorTableFails": 5.0,
    "ReplicatorSourceSilent": 2.0,
    "ReplicatorRunGone": 2.0,
}
"""For how long each condition of a rule has to hold; the rules of these tests count seconds where the shipped ones count minutes."""
_RECOVERS_WITHIN = 150.0
_CANARY = "canary of a row 577215"
_SECRET = "canary-of-a-hook-664901"
_Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True)
class Said:
    """What each output says while something is wrong.

    Attributes:
        metric: Of all samples.
        status: Of what `status --json` prints.
        alert: The alert that fires.
        title: Part of the title of the message.
    """

    metric: Callable[[_Samples], bool]
    status: Callable[[Mapping[str, Any]], bool]
    alert: str
    title: str


@dataclass
class Watched:
    """Two tables of a real server, their replicator into Delta, and all who watch it."""

    database: PostgresDatabase | MysqlDatabase
    replicator: Replicator
    address: str
    webhook: Webhook
    prometheus: Prometheus
    running: Running
    seen: list[str] = field(default_factory=list)
    _rows: int = 0

    @property
    def schema(self) -> str:
        """Of the tables."""
        return "public" if isinstance(self.database, PostgresDatabase) else self.database.name

    def change(self) -> None:
        """One more row in each table."""
        self._rows += 1
        for table in ("item", "note"):
            self.database.execute(f"INSERT INTO {table} (id, name) VALUES ({self._rows}, '{_CANARY}')")

    def __post_init__(self) -> None:
        """Metrics are read from the run's address, but for what a run that has ended leaves in its file."""
        self.scrape: Callable[[], str] = self._scraped

    def _scraped(self) -> str:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def restart(self) -> None:
        """Start the run again; it has ended."""
        assert self.running.wait().status == 3
        self.running = self.replicator.start()

    def end(self) -> None:
        """End what runs."""
        self.running.kill()

    def metrics(self) -> _Samples:
        """What Prometheus is given."""
        self.seen.append(self.scrape())
        return parsed(self.seen[-1])

    def status(self) -> Mapping[str, Any]:
        """What `status --json` prints."""
        ended = self.replicator.start_command("status", str(self.replicator.pipeline)).wait()
        self.seen.append(ended.messages)
        return dict(ended.envelope["data"])

    def looks(self, said: Said, before: int) -> Mapping[str, Callable[[], bool]]:
        """How each output is looked at; of messages those after the first `before`."""
        return {
            "metrics": lambda: said.metric(self.metrics()),
            "alert": lambda: said.alert in self.prometheus.firing(),
            "notification": lambda: any(said.title in title for title in self.webhook.titles[before:]),
            "status": lambda: said.status(self.status()),
        }

    def says(self, said: Said, since: float, before: int) -> None:
        """Assert that every output says so in time, since `since`."""
        looks, found = dict(self.looks(said, before)), dict[str, float]()
        while looks and time.monotonic() - since < _WITHIN + 60:
            for name, look in list(looks.items()):
                began = time.monotonic()
                if look():
                    found[name] = began - since
                    del looks[name]
            time.sleep(0.2)
        late = {n: s for n, s in found.items() if s > _WITHIN + (_RULE_WAITS[said.alert] if n == "alert" else 0)}
        assert not [*looks, *late], f"{said.alert}: not said: {[*looks]}, seconds: {found}\n{self.webhook.titles}"

    def recovers(self, said: Said, before: int) -> None:
        """Wait until no output says so any more, and a message says that it is over."""
        looks = dict(self.looks(said, before))
        looks["notification"] = lambda: any("no longer" in t or "again" in t for t in self.webhook.titles[before:])
        deadline = time.monotonic() + _RECOVERS_WITHIN
        for name, look in looks.items():
            while look() is not (name == "notification"):
                assert time.monotonic() < deadline, f"{said.alert}: {name} does not recover: {self.webhook.titles}"
                time.sleep(0.5)
        self.equal()

    def equal(self) -> None:
        """Wait until each copy has the rows of its table."""
        deadline = time.monotonic() + 120
        for table in ("item", "note"):
            expected = list(range(1, self._rows + 1))
            while sorted(key for (key,) in self._copy(table)) != expected:
                assert time.monotonic() < deadline, table
                time.sleep(0.5)

    def _copy(self, table: str) -> list[tuple[Any, ...]]:
        path = self.replicator.lake / self.schema / table
        return list(delta_rows(path, ["id"])) if DeltaTable.is_deltatable(str(path)) else []

    def poison(self) -> None:
        """A value in `item` that no standard type holds; it goes again, but the log has it."""
        insert = f"INSERT INTO item (id, name, {{}}) VALUES (0, '{_CANARY}', {{}})"
        if isinstance(self.database, PostgresDatabase):
            self.database.execute(insert.format("price", "'NaN'"))
        else:
            with self.database.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_mode = ''")
                cursor.execute(insert.format("day", "'0000-00-00'"))
        self.database.execute("DELETE FROM item WHERE id = 0")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the server's processes as a host that hangs does."""
        found: Any = self.database.server
        parent = psutil.Process(found.pid if isinstance(self.database, MysqlDatabase) else found._process.pid)
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave no space on the file system of all copies."""
        ballast = self.replicator.lake / "ballast"
        with suppress(OSError), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        try:
            yield
        finally:
            ballast.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Have the file system of all copies refuse every write."""
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, how: str) -> None:
        deadline = time.monotonic() + 60
        while subprocess.run(["mount", "-o", f"remount,{how}", self.replicator.lake], check=False).returncode:
            assert time.monotonic() < deadline, "a file is being written all the time"
            time.sleep(0.05)


@pytest.fixture(params=["postgres", "mysql"])
def database(
    request: pytest.FixtureRequest, private_postgres: PrivatePostgres, mysql_server: PrivateMysql
) -> Iterator[PostgresDatabase | MysqlDatabase]:
    """Of a server of the test's own, which it stops."""
    server = private_postgres() if request.param == "postgres" else mysql_server()
    with server.database() as made:
        made.execute("CREATE TABLE item (id int PRIMARY KEY, name varchar(60), price numeric(10,2), day date)")
        made.execute("CREATE TABLE note (id int PRIMARY KEY, name varchar(60))")
        yield made


@pytest.fixture
def watched(
    database: PostgresDatabase | MysqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    """A run that streams."""
    is_postgres = isinstance(database, PostgresDatabase)
    schema = "public" if is_postgres else database.name
    tables = [{"schema" if is_postgres else "database": schema, "table": table} for table in ("item", "note")]
    (tmp_path / "lake").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", tmp_path / "lake"], check=False)
    if mounted.returncode:
        pytest.skip("may not mount here")
    address = f"{LOOPBACK}:{free_port()}"
    (tmp_path / "rules.yml").write_text(rules(minute="s"))
    with ExitStack() as opened:
        opened.callback(lambda: subprocess.run(["umount", "-l", tmp_path / "lake"], check=True))
        webhook = opened.enter_context(serving(Webhook()))
        settings = {
            "tables": tables,
            "batch": {"maxIntervalSeconds": 0.5},
            "retries": {"delaySeconds": 0.5},
            "metrics": {"address": address, "textfile": str(tmp_path / "shop.prom")},
            "slo": {"percent": 99, "minutes": 5},
            "notifications": [{"url": f"json://{LOOPBACK}:{webhook.port}/{_SECRET}"}],
            "lineage": {"transport": {"type": "file", "log_file_path": str(tmp_path / "lineage"), "append": True}},
        }
        source = (
            postgres_source(database)
            if isinstance(database, PostgresDatabase)
            else mysql_source(database, zeroDates="fail")
        )
        replicator = Replicator(tmp_path, source, settings=settings)
        prometheus = opened.enter_context(Prometheus(tmp_path, [address], tmp_path / "rules.yml"))
        watched = Watched(database, replicator, address, webhook, prometheus, replicator.start())
        opened.callback(watched.end)
        streams = "sum(replicator_phase{phase='streaming'})"
        prometheus.wait(lambda: prometheus.value(streams) == {(): 1}, "does not stream")
        yield watched


def _sample(name: str, at_least: float, *labels: tuple[str, str]) -> Callable[[_Samples], bool]:
    return lambda samples: any(
        value >= at_least for (found, has), value in samples.items() if found == name and has.issuperset(labels)
    )


_SILENT = Said(
    _sample("replicator_source_silent_seconds", 10),
    lambda status: (status["lagSeconds"] or 0) > 5,
    "ReplicatorSourceSilent",
    "the run fails",
)
_TABLE = Said(
    _sample("replicator_table_state", 1, ("state", "FAILING")),
    lambda status: [t["state"] for t in status["tables"] if t["table"] == "item"] == ["FAILING"],
    "ReplicatorTableFails",
    "a table fails",
)
_FULL = Said(
    _sample("replicator_failing", 1),
    lambda status: status["phase"] == "retrying",
    "ReplicatorRunFails",
    "the run fails",
)
_ENDED = Said(
    _sample("replicator_phase", 1, ("phase", "failed")),
    lambda status: status["phase"] == "failed" and status["lastError"]["code"] == "RPL-3403",
    "ReplicatorRunGone",
    "the run has ended with an error",
)


@pytest.mark.timeout(1200)
def test_four_outputs_say_within_15_seconds_what_is_wrong_recover_and_show_no_row_and_no_secret(
    watched: Watched, tmp_path: Path
) -> None:
    watched.change()
    watched.equal()
    watched.prometheus.wait(lambda: _answered(watched.status()), "the source was not asked")

    before, began = len(watched.webhook.titles), time.monotonic()
    with watched.frozen():
        watched.says(_SILENT, began, before)
    watched.change()
    watched.recovers(_SILENT, before)

    before, began = len(watched.webhook.titles), time.monotonic()
    watched.poison()
    watched.change()
    watched.says(_TABLE, began, before)
    watched.replicator.start_command("table", "resync", str(watched.replicator.pipeline), "item", "--yes").wait()
    watched.recovers(_TABLE, before)
    assert _sample("replicator_failures_total", 1)(watched.metrics()), "with its code"

    before = len(watched.webhook.titles)
    with watched.full():
        began = time.monotonic()
        watched.change()
        watched.says(_FULL, began, before)
    watched.change()
    watched.recovers(_FULL, before)

    _assert_a_run_that_ends_says_so(watched, tmp_path / "shop.prom")
    _assert_clean(watched, tmp_path)


def _answered(status: Mapping[str, Any]) -> bool:
    return bool(status["source"] and status["source"]["answeredAt"])


def _assert_a_run_that_ends_says_so(watched: Watched, text_file: Path) -> None:
    """No retry helps where nothing may be written: the run ends, and the next one goes on."""
    before = len(watched.webhook.titles)
    with watched.read_only():
        began = time.monotonic()
        watched.change()
        watched.scrape = text_file.read_text
        watched.says(_ENDED, began, before)
    watched.restart()
    watched.change()
    watched.recovers(_ENDED, before)
    watched.running.stop()


def _assert_clean(watched: Watched, folder: Path) -> None:
    logs = [*folder.glob("run-*.log"), *folder.glob("state/**/logs/*.log")]
    said = {
        "metrics and status": "".join(watched.seen),
        "notifications": json.dumps(watched.webhook.messages),
        "lineage": "".join(file.read_text() for file in folder.glob("lineage*")),
        "log": "".join(file.read_text("utf-8") for file in logs),
    }
    for place, text in said.items():
        assert text, place
        for secret in (_CANARY, _SECRET, watched.database.password):
            assert secret not in text, place
