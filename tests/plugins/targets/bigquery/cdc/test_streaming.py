"""What is streamed, what is refused, and what happens to a connection that ends."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from replicator_sdk.datatype import FLOAT64, INT64
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import (
    DataError,
    FencedError,
    NeedsUserError,
    ReplicatorError,
    RetryableError,
    SchemaDriftError,
    SnapshotNeededError,
)
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.schema import Column, TableId, TableSchema, rename_table, replace_columns
from replicator_target_bigquery.cdc import append_requests as requests
from replicator_target_bigquery.cdc.consumer import CdcConsumer
from tests.plugins.targets.bigquery.cdc.conftest import streaming
from tests.plugins.targets.bigquery.support.changes import (
    KEYED,
    KEYLESS,
    alter,
    at,
    batch,
    ddl,
    delete,
    insert,
    row,
    update,
)
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.change_ingestion import StreamFault
from tests.services.bigquery.emulators import Emulators

_ROWS = "SELECT id, name, note FROM {d}.customers ORDER BY id"
_EXTRA = Column("extra", INT64)
_WIDER = replace_columns(KEYED, (*KEYED.columns, _EXTRA))


def test_a_table_declares_its_key_and_how_old_it_may_be(bigquery_emulators: Emulators) -> None:
    project = streaming(bigquery_emulators, max_staleness=5400)
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    made = consumer._clients.bigquery.get_table(f"{project.dataset}.customers")
    assert made.table_constraints.primary_key.columns == ["id"]
    assert made.clustering_fields == ["id"]
    assert made.max_staleness == "0-0 0 1:30:0"
    consumer.stop()


def test_changes_are_sent_whole_and_in_the_order_of_the_log(project: Project) -> None:
    consumer = project.consumer(epoch=7)
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), insert(row(2, "b"))], epoch=7))
    consumer.apply_batch(batch(2, [update(row(3, "a", "n"), before={"id": 1}), delete({"id": 2})], epoch=7))
    sent = [(c.kind, c.key, c.number) for c in project.emulators.streaming.changes]
    assert sorted(sent[2:]) == [
        ("DELETE", (1,), "7/00000000000007D1"),
        ("DELETE", (2,), "7/00000000000007D2"),
        ("UPSERT", (3,), "7/00000000000007D1"),
    ]
    assert project.select(_ROWS) == [["3", "a", "n"]]
    consumer.stop()


@pytest.mark.parametrize(
    "fault",
    [
        StreamFault(after=1),
        StreamFault(after=9),
        StreamFault(code=grpc.StatusCode.ABORTED),
        StreamFault(answer=5),
        StreamFault(answer=3, storage=11),
    ],
    ids=["after a request", "after all", "aborted", "no stream yet", "new column not known yet"],
)
def test_temporary_faults_are_sent_again(project: Project, fault: StreamFault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "REQUEST_BYTES", 60)
    streaming_server = project.emulators.streaming
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    streaming_server.plan(fault)
    consumer.apply_batch(batch(1, [insert(row(i, "a")) for i in range(4)]))
    assert streaming_server.pending == 0
    assert project.select("SELECT id FROM {d}.customers ORDER BY id") == [[str(i)] for i in range(4)]
    progress = consumer.progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(1)
    consumer.stop()


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        (StreamFault(code=grpc.StatusCode.PERMISSION_DENIED), NeedsUserError, "RPL-6513"),
        (StreamFault(answer=7), NeedsUserError, "RPL-6513"),
        (StreamFault(refuses_rows=True), DataError, "RPL-6706"),
    ],
    ids=["no right", "no right, answered", "rows refused"],
)
def test_permanent_faults_are_reported_and_nothing_is_lost(
    project: Project, fault: StreamFault, error: type[ReplicatorError], code: str
) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    project.emulators.streaming.plan(fault)
    with pytest.raises(error) as err:
        consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    assert (err.value.code, err.value.table) == (code, "shop.customers")
    assert "secret" not in str(err.value)
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    assert project.count("customers") == 1
    consumer.stop()


def test_changes_without_their_progress_are_replayed_in_other_batches(project: Project) -> None:
    first = project.consumer()
    first.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "b"))]))
    arm("bigquery.cdc.appended=raise")
    with pytest.raises(RetryableError):
        first.apply_batch(batch(2, [update(row(1, "c"), before=row(1)), insert(row(5))]))
    arm("")
    assert project.count("customers") == 3
    second = project.consumer(epoch=2)
    progress = second.progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(1)
    changes = [update(row(1, "c"), before=row(1)), insert(row(5)), delete({"id": 5}), update(row(2, "d"))]
    second.apply_batch(batch(2, changes, epoch=2))
    assert project.select(_ROWS) == [["1", "c", None], ["2", "d", None]]
    first.stop()
    second.stop()


def test_a_superseded_run_reads_the_commit_log_before_it_sends(project: Project) -> None:
    zombie = project.consumer(epoch=1)
    zombie.apply_batch(batch(1, [insert(row(1, "a"))]))
    newer = project.consumer(epoch=2)
    assert newer.progress(KEYED.table) is not None
    project.emulators.streaming.clear()
    with pytest.raises(FencedError):
        zombie.apply_batch(batch(2, [insert(row(2))]))
    assert project.emulators.streaming.changes == []


def test_a_superseded_run_that_has_read_the_log_loses_against_the_newer_run(project: Project) -> None:
    """It falls asleep between looking and sending; the newer run does the same changes and more meanwhile."""
    zombie, newer = project.consumer(epoch=1), project.consumer(epoch=2)
    assert isinstance(zombie, CdcConsumer)
    zombie.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "b"))]))
    send = zombie._streams.append

    def sleeps(*args: object) -> object:
        newer.apply_batch(batch(2, [update(row(1, "c"), before=row(1)), delete({"id": 2})], epoch=2))
        newer.apply_batch(batch(3, [update(row(1, "d"), before=row(1))], epoch=2))
        return send(*args)  # type: ignore[arg-type]

    zombie._streams.append = sleeps  # type: ignore[method-assign, assignment]
    with pytest.raises(FencedError):
        zombie.apply_batch(batch(2, [update(row(1, "c"), before=row(1)), delete({"id": 2})]))
    assert project.select(_ROWS) == [["1", "d", None]]


def test_a_truncated_table_is_replaced_and_goes_on(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE))
    assert project.count("customers") == 0
    consumer.apply_batch(batch(3, [insert(row(1, "b"))]))
    assert project.select(_ROWS) == [["1", "b", None]]
    consumer.stop()


_OTHER_KEY = TableSchema(KEYED.table, KEYED.columns, ("id", "name"))
_EVENTS: dict[str, DDLEvent] = {
    "default": alter(2, _WIDER, Alter(AlterKind.ADD_COLUMN, _EXTRA, default=7)),
    "key": alter(2, _OTHER_KEY, Alter(AlterKind.CHANGE_KEY)),
    "rename": ddl(2, DDLOperation.RENAME_TABLE, rename_table(KEYED, TableId("shop", "people")), prev_table=KEYED.table),
}


@pytest.mark.parametrize("event", _EVENTS.values(), ids=_EVENTS)
def test_structure_that_needs_more_than_bigquery_allows_is_refused(project: Project, event: DDLEvent) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(SchemaDriftError) as err:
        consumer.apply_ddl(event)
    assert err.value.code == "RPL-6707"
    assert "table resync" in err.value.hint
    assert project.select(_ROWS) == [["1", "a", None]]
    consumer.stop()


def test_an_update_without_all_columns_is_refused_before_a_row_is_sent(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "long"))]))
    project.emulators.streaming.clear()
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_batch(batch(2, [insert(row(2)), update({"id": 1, "name": "b"})]))
    assert err.value.code == "RPL-6702"
    assert "REPLICA IDENTITY FULL" in err.value.hint
    assert project.emulators.streaming.changes == []
    consumer.stop()


def test_values_that_the_batch_itself_holds_need_not_be_sent_twice(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "long")), update({"id": 2, "name": "b"}, before={"id": 1})]))
    assert project.select(_ROWS) == [["2", "b", "long"]]
    consumer.stop()


_NULLABLE = replace_columns(KEYED, (replace(KEYED.columns[0], nullable=True), *KEYED.columns[1:]))
_FLOATS = TableSchema(TableId("shop", "floats"), (Column("f", FLOAT64, nullable=False),), ("f",))


def test_keys_that_change_data_capture_cannot_use_are_refused(project: Project) -> None:
    consumer = project.consumer()
    with pytest.raises(DataError) as null:
        consumer.apply_batch(batch(1, [insert(row(1), _NULLABLE), insert({**row(1), "id": None}, _NULLABLE)]))
    with pytest.raises(NeedsUserError) as keyless:
        consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    with pytest.raises(NeedsUserError) as floating:
        consumer.apply_ddl(ddl(1, DDLOperation.CREATE_TABLE, _FLOATS))
    assert [e.value.code for e in (null, keyless, floating)] == ["RPL-6703", "RPL-6701", "RPL-6701"]
    assert keyless.value.table == "shop.log"
    with project.target.create_table_assessor() as assessor:
        (finding,) = assessor.assess_table(KEYLESS).findings
    assert (finding.severity, finding.code) == (Severity.ERROR, "RPL-6701")
    consumer.stop()


def test_a_row_that_no_request_holds_is_refused_without_its_values(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "REQUEST_BYTES", 200)
    monkeypatch.setattr(requests, "LARGEST_ROW", 1000)
    consumer = project.consumer()
    with pytest.raises(DataError) as err:
        consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "secret" * 200))]))
    assert (err.value.code, err.value.table) == ("RPL-6604", "shop.customers")
    assert "secret" not in str(err.value)
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    assert project.count("customers") == 1
    consumer.stop()


def test_a_table_that_is_missing_or_declares_no_key_is_reported(
    bigquery_emulators: Emulators, project: Project
) -> None:
    plain = Project(bigquery_emulators, dataset_name=project.dataset)
    before = plain.consumer()
    before.apply_batch(batch(1, [insert(row(1))]))
    before.stop()
    bigquery_emulators.gate.clear()
    consumer = project.consumer()
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert err.value.code == "RPL-6704"
    assert "ADD PRIMARY KEY (id) NOT ENFORCED" in err.value.hint
    consumer._clients.bigquery.delete_table(f"{project.dataset}.customers")
    with pytest.raises(SnapshotNeededError) as gone:
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert gone.value.code == "RPL-6556"
    consumer.stop()
