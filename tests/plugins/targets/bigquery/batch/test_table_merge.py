"""What batches make of tables, beyond the conformance kit: kept rows, pruning, one bad table beside others, costs."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from replicator_sdk.datatype import DATE, INT64, STRING
from replicator_sdk.errors import DataError, NeedsUserError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.contexts import CountingMetrics
from replicator_target_bigquery.batch.staging_rows import BatchStamp, staged_batches
from replicator_target_bigquery.load.load_rate_limit import LoadRateLimit
from tests.plugins.targets.bigquery.support.changes import (
    EXACT,
    KEYED,
    KEYLESS,
    batch,
    ddl,
    delete,
    insert,
    row,
    update,
)
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault


def test_deleted_rows_stay_marked_and_are_restored_by_an_insert(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators, soft_deletes=True)
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), insert(row(2, "b"))]))
    consumer.apply_batch(batch(2, [delete({"id": 1}), update(row(3, "b"), before={"id": 2})]))
    found = project.select("SELECT id, name, _is_deleted, _sequence_num FROM {d}.customers ORDER BY id")
    assert found == [["1", "a", "true", "2001"], ["2", "b", "true", "2002"], ["3", "b", "false", "2002"]]
    consumer.apply_batch(batch(3, [insert(row(1, "new"))]))
    assert project.select("SELECT name, _is_deleted FROM {d}.customers WHERE id = 1") == [["new", "false"]]


@pytest.mark.parametrize("was", [True, False], ids=["off", "on"])
def test_soft_deletes_that_are_switched_are_refused(bigquery_emulators: Emulators, was: bool) -> None:
    """Without the refusal a row that comes again after its marked delete stays marked, although it is alive."""
    project = Project(bigquery_emulators, soft_deletes=was)
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    consumer.apply_batch(batch(2, [delete({"id": 1})]))
    consumer.stop()
    edited = Project(bigquery_emulators, soft_deletes=not was, dataset_name=project.dataset).consumer(epoch=2)
    for _ in range(3):
        with pytest.raises(SchemaDriftError, match=r"RPL-6531.*_is_deleted") as caught:
            edited.apply_batch(batch(3, [insert(row(1, "new"))]))
        assert "softDeletes" in caught.value.hint
    edited.stop()
    again = project.consumer(epoch=3)
    again.apply_batch(batch(3, [insert(row(1, "new"))]))
    assert project.read_table(KEYED) == [row(1, "new")]


def test_of_equal_rows_as_many_are_marked_as_are_deleted(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators, soft_deletes=True)
    consumer = project.consumer()
    one = {"name": "a", "number": None}
    consumer.apply_batch(batch(1, [insert(one, KEYLESS)] * 3))
    consumer.apply_batch(batch(2, [delete(one, KEYLESS)]))
    consumer.apply_batch(batch(3, [delete(one, KEYLESS)]))
    marked = project.select("SELECT _is_deleted, COUNT(*) FROM {d}.log GROUP BY 1 ORDER BY 1")
    assert marked == [["false", "1"], ["true", "2"]]


def test_values_that_were_not_sent_stay_also_when_the_key_moves(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "long")), insert(row(2, "b", "other"))]))
    consumer.apply_batch(batch(2, [update({"id": 5, "name": "A"}, before={"id": 1}), update({"id": 2, "note": "new"})]))
    found = project.select("SELECT id, name, note FROM {d}.customers ORDER BY id")
    assert found == [["2", "b", "new"], ["5", "A", "long"]]


@pytest.mark.parametrize(("overlap", "error"), [(False, DataError), (True, SnapshotNeededError)])
def test_a_value_that_no_row_has_is_an_error_and_nothing_is_written(
    project: Project,
    overlap: bool,
    error: type[Exception],
) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    with pytest.raises(error):
        consumer.apply_batch(batch(1, [insert(row(7)), update({"id": 1, "name": "A"})], overlap=overlap))
    assert project.count("customers") == 0


def test_a_merge_names_the_keys_and_partitions_it_can_touch(bigquery_emulators: Emulators) -> None:
    schema = TableSchema(
        TableId("shop", "days"),
        (Column("day", DATE, nullable=False), Column("id", INT64, nullable=False)),
        ("id", "day"),
    )
    project = Project(
        bigquery_emulators, partition_by={"shop.days": "day"}, require_partition_filter=True, partition_type="MONTH"
    )
    bigquery_emulators.gate.clear()
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert({"day": date(2024, 5, d), "id": d}, schema) for d in (1, 2)]))
    (merge,) = [job.sql for job in bigquery_emulators.gate.jobs if "MERGE" in job.sql]
    assert "T.`id` BETWEEN 1 AND 2" in merge
    assert "T.`day` BETWEEN DATE '2024-05-01' AND DATE '2024-05-02'" in merge
    found = consumer._session.catalogue.find(f"test.{project.dataset}.days", schema.table)
    assert found is not None
    assert (found.partition, found.clustered) == ("day", ("id", "day"))  # the emulator forgets that it insists


def test_tables_are_created_with_labels_clusters_and_expiring_staging(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators, labels={"team": "data"})
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    client = consumer._clients.bigquery
    target, staging = (client.get_table(f"{project.dataset}.{t}") for t in ("customers", "_staging_customers"))
    assert (target.labels, target.clustering_fields) == ({"team": "data"}, ["id"])
    assert staging.clustering_fields == ["_batch_id", "_sequence_num"]
    assert staging.time_partitioning.field == "_batch_time"
    assert staging.time_partitioning.expiration_ms == 72 * 3_600_000


def test_one_bad_table_does_not_stop_the_others(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    project.select("CREATE TABLE {d}.customers (id INT64)")
    project.select("INSERT INTO {d}.customers (id) VALUES (1)")
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_batch(batch(1, [insert(row(1))]))
    assert err.value.table == "shop.customers"
    consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    assert project.count("log") == 1


def test_a_missing_bucket_is_reported_with_the_next_step(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators, staging_bucket="not-there")
    consumer = project.consumer()
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_batch(batch(1, [insert(row(1))]))
    assert "stagingBucket" in err.value.hint
    with project.target.create_table_assessor() as assessor:
        assert [f.name for f in assessor.assess().findings] == ["bucket_missing"]


def test_a_missing_right_to_run_jobs_is_reported_with_the_next_step(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    project.emulators.gate.plan(Fault(status=401), on=lambda r: r.kind == "load")
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_batch(batch(1, [insert(row(1))]))
    assert "serviceAccountKey" in err.value.hint


def test_a_dataset_in_another_location_is_reported(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators)
    project.consumer().apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    moved = Project(bigquery_emulators, dataset_name=project.dataset, staging_bucket_location="EU")
    with pytest.raises(NeedsUserError) as err:
        moved.consumer().apply_batch(batch(1, [insert(row(1))]))
    assert err.value.code == "RPL-6521"


def test_what_jobs_cost_is_counted(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    metrics = consumer._session.context.metrics
    assert isinstance(metrics, CountingMetrics)
    assert metrics.counters["bigquery.jobs"] >= 2
    assert {"bigquery.bytes_billed", "bigquery.slot_ms"} <= metrics.counters.keys()
    assert metrics.counters["bigquery.rows_staged"] == 1


def test_staged_files_are_deleted_from_the_bucket(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    left = [b.name for b in consumer._clients.storage.list_blobs("staging") if project.dataset in b.name]
    assert left == []


def test_an_unsent_delete_row_is_staged_as_its_key_alone() -> None:
    (staged,) = staged_batches(
        batch(1, [delete(row(3, "secret"))]), {n: n for n in KEYED.names}, BatchStamp("x", 0), EXACT
    )
    assert staged.column("id").to_pylist() == [3]
    assert staged.column("name").to_pylist() == [None]
    assert staged.column("_before_name").to_pylist() == ["secret"]
    assert staged.schema.field("_batch_time").type == pa.timestamp("us", "UTC")


def test_loads_of_one_table_are_an_interval_apart() -> None:
    now, waited = [0.0], []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    pace = LoadRateLimit(90, sleep, lambda: now[0])
    for table in (KEYED.table, KEYED.table, KEYLESS.table):
        pace.wait(table)
    now[0] += 200
    pace.wait(KEYED.table)
    assert waited == [90]


def test_text_columns_only_are_no_pruning(project: Project) -> None:
    schema = TableSchema(TableId("shop", "mails"), (Column("mail", STRING, nullable=False),), ("mail",))
    project.consumer().apply_batch(batch(1, [insert({"mail": "secret@example.org"}, schema)]))
    assert not any("secret" in job.sql for job in project.emulators.gate.jobs)
