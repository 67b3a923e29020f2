"""Files that runs left before their commit are deleted, and no file that anyone needs; what is needed is read by `pyiceberg`."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from replicator_sdk.errors import FencedError, ReplicatorError
from replicator_target_iceberg.config import CatalogType, Mode
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.naming import identifier
from replicator_target_iceberg.schema.definition import new_schema
from replicator_target_iceberg.schema.table_form import TableForm
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.orphans.folders import age, checksums_of_nothing, files, needed
from tests.plugins.targets.iceberg.others import before_publishing, compacts, foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

every_catalog = pytest.mark.parametrize("lake", [CatalogType.HADOOP, CatalogType.JDBC], ids=str, indirect=True)


@pytest.fixture(params=[CatalogType.HADOOP], ids=str)
def lake(request: pytest.FixtureRequest, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    return Warehouse(tmp_path / "lake", iceberg_spark, request.param, branch="audit", formatVersion=3)


def place(lake: Warehouse) -> Path:
    name = identifier(TABLE)
    return lake.folder / name.namespace / name.name


def some_commits(lake: Warehouse) -> None:
    """Data files, delete files, several snapshots, a branch and a tag beside."""
    consumer = lake.consumer()
    for number in range(1, 6):
        gone = [delete(row(number - 1)), update(row(1, str(number)))] if number > 2 else []
        consumer.apply_batch(batch(number, [insert(row(number)), *gone]))
    consumer.stop()
    foreign(lake, lambda table, _: table.manageSnapshots().createBranch("other").commit())
    foreign(lake, lambda table, _: table.newAppend().toBranch("other").commit())


def left_by_a_run(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """What a run wrote that ended right before it published: data, deletes, manifests and their list."""
    before = files(place(lake))

    def dies(self: Change) -> None:
        raise KeyboardInterrupt

    consumer = lake.consumer()
    changes = batch(50, [insert(row(50)), update(row(5, "late"))])
    with monkeypatch.context() as patch:
        patch.setattr(Change, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            consumer.apply_batch(changes)
    consumer.stop()
    left = files(place(lake)) - before
    assert {path.suffix for path in left} == {".parquet", ".puffin", ".avro"}
    return left


def of_the_library(lake: Warehouse) -> set[Path]:
    """What a catalog of folders leaves when it is killed while it publishes, and a checksum of a file that has another name by then."""
    metadata, one = place(lake) / "metadata", uuid.uuid4()
    made = {metadata / f"{one}.metadata.json", metadata / f"{one}-version-hint.temp"}
    for path in made:
        path.write_text("{")
    (metadata / f".{uuid.uuid4()}.metadata.json.crc").write_text("x")
    return made


def rows_of_all(lake: Warehouse) -> dict[int, int]:
    """How many rows each snapshot has, read from its files."""
    table = lake.table(TABLE)
    return {one.snapshot_id: table.scan(snapshot_id=one.snapshot_id).to_arrow().num_rows for one in table.snapshots()}


@every_catalog
def test_what_a_run_left_is_deleted_and_every_snapshot_of_every_branch_stays(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_commits(lake)
    left = left_by_a_run(lake, monkeypatch) | of_the_library(lake)
    age(lake.folder)
    there, rows, live = files(place(lake)), rows_of_all(lake), needed(lake.table(TABLE))
    assert lake.maintain(TABLE, "orphans").files_before == len(left) + 1
    assert there - files(place(lake)) == left
    assert files(place(lake)) == live
    assert checksums_of_nothing(place(lake)) == []
    assert rows_of_all(lake) == rows
    assert lake.maintain(TABLE, "orphans").has_changed is False
    consumer = lake.consumer()
    consumer.apply_batch(batch(51, [update(row(5, "later")), insert(row(51))]))
    consumer.stop()
    assert {one["id"]: one["name"] for one in lake.rows(TABLE)} == {1: "5", 5: "later", 51: None}


def test_what_is_younger_than_the_limit_stays(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    some_commits(lake)
    left = left_by_a_run(lake, monkeypatch)
    age(lake.folder, days=2)
    assert lake.maintain(TABLE, "orphans").has_changed is False
    assert left <= files(place(lake))


def test_files_of_other_programs_and_of_tables_below_stay(lake: Warehouse) -> None:
    """A program may have a commit under way that takes days."""
    some_commits(lake)
    data = place(lake) / "data"
    one = next(data.glob("*.parquet"))
    inside = data / "inside" / "data"
    inside.mkdir(parents=True)
    theirs = [data / "00000-1-abc-00001.parquet", inside / f"{uuid.uuid4()}.parquet", place(lake) / "readme"]
    for path in theirs:
        shutil.copy(one, path)
    age(lake.folder)
    lake.maintain(TABLE, "orphans")
    assert all(path.exists() for path in theirs)


def test_a_table_that_forbids_it_keeps_everything(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Iceberg's property for tables that share files with others."""
    some_commits(lake)
    left = left_by_a_run(lake, monkeypatch)
    foreign(lake, lambda table, _: table.updateProperties().set("gc.enabled", "false").commit())
    age(lake.folder)
    assert lake.maintain(TABLE, "orphans").has_changed is False
    assert left <= files(place(lake))


@pytest.mark.parametrize("lake", [CatalogType.JDBC], ids=str, indirect=True)
def test_a_table_beside_another_one_in_the_same_location_keeps_everything(
    lake: Warehouse, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's files have names as these have."""
    some_commits(lake)
    beside = Warehouse(lake.folder.parent / "other", iceberg_spark, "jdbc")
    catalog = Catalog(iceberg_spark, beside.config)
    newest = str(lake.table(TABLE).metadata_location)
    catalog.create(identifier(TABLE), json.dumps(new_schema(KEYED, TableForm(Mode.MERGE))), {}).commitTransaction()
    java: Any = catalog._catalog
    java.dropTable(catalog._identifier(identifier(TABLE)), False)
    java.registerTable(catalog._identifier(identifier(TABLE)), newest).newAppend().commit()
    catalog.close()
    left = left_by_a_run(lake, monkeypatch)
    age(lake.folder)
    before = files(place(lake))
    with structlog.testing.capture_logs() as logs:
        assert lake.maintain(TABLE, "orphans").has_changed is False
    assert [entry["event"] for entry in logs] == ["iceberg.orphans_kept"]
    assert files(place(lake)) == before >= left


@pytest.mark.parametrize("lake", [CatalogType.JDBC], ids=str, indirect=True)
def test_versions_that_were_not_published_are_deleted_with_what_they_name(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was killed after it wrote the version, and before the catalog named it."""
    some_commits(lake)
    left = left_by_a_run(lake, monkeypatch)
    metadata = place(lake) / "metadata"
    newest = json.loads(Path(str(lake.table(TABLE).metadata_location).removeprefix("file:")).read_text())
    unpublished = metadata / f"00099-{uuid.uuid4()}.metadata.json"
    ours = [one for one in newest["snapshots"] if "replicator.progress" in one["summary"]]
    unpublished.write_text(json.dumps({**newest, "snapshots": ours}))
    torn = metadata / f"00098-{uuid.uuid4()}.metadata.json"
    torn.write_text('{"snap')
    age(lake.folder)
    lake.maintain(TABLE, "orphans")
    assert files(place(lake)) == needed(lake.table(TABLE))
    assert not any(path.exists() for path in (*left, unpublished, torn))


def test_a_run_that_was_held_up_for_days_cannot_commit_what_was_deleted(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer run has committed nothing to this table yet."""
    some_commits(lake)
    zombie = lake.consumer(epoch=1)
    assert zombie.progress(TABLE) is not None
    rows = sorted(map(str, lake.rows(TABLE)))

    def meanwhile() -> None:
        age(lake.folder)
        assert lake.maintain(TABLE, "orphans", epoch=2).has_changed

    before_publishing(monkeypatch, meanwhile)
    with pytest.raises(ReplicatorError):
        zombie.apply_batch(batch(60, [insert(row(60))]))
    with pytest.raises(FencedError, match="RPL-8420"):
        zombie.apply_batch(batch(60, [insert(row(60))]))
    zombie.stop()
    assert sorted(map(str, lake.rows(TABLE))) == rows
    again = lake.consumer(epoch=2)
    progress = again.progress(TABLE)
    assert progress is not None
    assert progress.position == at(5)
    again.stop()


def test_a_table_that_has_no_snapshot_yet_or_is_not_there_needs_none(lake: Warehouse) -> None:
    assert lake.maintain(TABLE, "orphans").has_changed is False


def test_other_programs_commits_count_as_needed(lake: Warehouse) -> None:
    some_commits(lake)
    foreign(lake, compacts)
    age(lake.folder)
    lake.maintain(TABLE, "orphans")
    assert files(place(lake)) == needed(lake.table(TABLE))
