"""A run that is asked to stop does not wait: what BigQuery refuses is left to the next run."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from replicator_target_bigquery.consumer import BigQueryConsumer
from tests.end_to_end.replicator import COMMAND
from tests.plugins.targets.bigquery.cdc.conftest import streaming as changing
from tests.plugins.targets.bigquery.merge_flush.support.projects import settle, streaming
from tests.plugins.targets.bigquery.support.changes import batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.change_ingestion import StreamFault
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Request
from tests.services.bigquery.write_gate import Loss
from tests.services.forks import fork
from tests.services.processes import tail

AWAY = Fault(status=503)
_ENOUGH = 150.0  # the requests' own patience is 300 seconds


def refuse(request: Request) -> Fault:
    """Everything but what reads the state of tables."""
    return AWAY if (request.kind != "other" and "MERGE" in request.sql) or request.kind == "load" else Fault()


def test_a_request_that_is_repeated_is_given_up(bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, retry_seconds=300)
    context = project.context()
    consumer = project.target.create_consumer(context)
    assert isinstance(consumer, BigQueryConsumer)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    monkeypatch.setattr(type(context), "is_stopping", property(lambda _: True))
    monkeypatch.setattr(bigquery_emulators.gate, "chaos", refuse)
    began = time.monotonic()
    with pytest.raises(RetryableError) as err:
        consumer.apply_batch(batch(1, [insert(row(1))]))
    assert err.value.code == "RPL-6537"
    assert time.monotonic() - began < _ENOUGH
    monkeypatch.setattr(bigquery_emulators.gate, "chaos", None)
    consumer.stop()
    again = project.consumer(epoch=2)
    again.apply_batch(batch(1, [insert(row(1))], epoch=2))
    assert project.count("customers") == 1
    again.stop()


@pytest.mark.parametrize("mode", ["merge-flush", "cdc"])
def test_a_stream_that_is_never_answered_is_given_up(
    bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    bigquery_emulators.gate.clear()
    project = {"merge-flush": streaming, "cdc": changing}[mode](bigquery_emulators)
    context = project.context()
    consumer = project.target.create_consumer(context)
    assert isinstance(consumer, BigQueryConsumer)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    bigquery_emulators.write_gate.plan("AppendRows", *[Loss.HANG] * (mode == "merge-flush"))
    bigquery_emulators.streaming.plan(*[StreamFault(hangs=True)] * (mode == "cdc"))
    monkeypatch.setattr(type(context), "is_stopping", property(lambda _: True))
    began = time.monotonic()
    with pytest.raises(RetryableError) as err:
        consumer.apply_batch(batch(1, [insert(row(1))]))
    assert err.value.code == {"merge-flush": "RPL-6603", "cdc": "RPL-6537"}[mode]
    assert time.monotonic() - began < _ENOUGH
    consumer.stop()
    assert bigquery_emulators.write_gate.pending == bigquery_emulators.streaming.pending == 0


def test_the_time_between_two_loads_is_not_waited_for(
    bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch
) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, load_interval=3600)
    context = project.context()
    consumer = project.target.create_consumer(context)
    assert isinstance(consumer, BigQueryConsumer)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    monkeypatch.setattr(type(context), "is_stopping", property(lambda _: True))
    began = time.monotonic()
    consumer.apply_batch(batch(2, [insert(row(2))]))
    settle(consumer)
    assert time.monotonic() - began < _ENOUGH
    assert project.count("customers") == 2
    consumer.stop()


@pytest.mark.parametrize("mode", ["batch", "merge-flush"])
def test_sigterm_ends_a_run_whose_requests_are_refused(
    bigquery_emulators: Emulators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The command, as systemd runs it."""
    bigquery_emulators.gate.clear()
    made = {"batch": Project, "merge-flush": streaming}[mode]
    project = made(bigquery_emulators, retry_seconds=300)
    shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    shop.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    settings = project.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    if mode == "merge-flush":
        settings["mergeIntervalMs"] = 200
    source = {"name": "sqlite", "type": "cdcSource", "properties": {"path": f"{tmp_path}/shop.db"}}
    pipeline = {
        "name": "shop",
        "stages": [
            {"name": "shop", "plugin": source},
            {"name": "catalogue", "plugin": {"name": "bigquery", "type": "cdcTarget", "properties": settings}},
        ],
        "connections": [{"from": "shop", "to": "catalogue"}],
        "tables": [{"database": "main", "table": "customers"}],
        "offsetBasePath": str(tmp_path / "state"),
    }
    (tmp_path / "pipeline.json").write_text(json.dumps(pipeline))
    log = tmp_path / "log"
    command = [*COMMAND, "run", str(tmp_path / "pipeline.json")]
    assert fork([*command, "--until-current"], log=log, environment={}).wait(240) == 0, tail(log, 40)
    met: list[Request] = []

    def refuse_and_notify(request: Request) -> Fault:
        fault = refuse(request)
        met.extend([request] if fault.status else [])
        return fault

    monkeypatch.setattr(bigquery_emulators.gate, "chaos", refuse_and_notify)
    shop.execute("INSERT INTO customers VALUES (1, 'a')")
    running = fork(command, log=log, environment={})
    deadline = time.monotonic() + 120
    while not met:
        assert time.monotonic() < deadline, tail(log, 40)
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    assert running.wait(240) == 128 + signal.SIGTERM, tail(log, 40)
    assert time.monotonic() - asked < _ENOUGH
    monkeypatch.setattr(bigquery_emulators.gate, "chaos", None)
    assert fork([*command, "--until-current"], log=log, environment={}).wait(240) == 0, tail(log, 40)
    assert project.select("SELECT id, name FROM {d}.customers") == [["1", "a"]]
    shop.close()
