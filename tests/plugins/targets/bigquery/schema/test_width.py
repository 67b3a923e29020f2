"""A table with more columns than BigQuery's tables have is refused by the assessment and by the run, before a job fails."""

from __future__ import annotations

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema, replace_columns
from replicator_target_bigquery.schema import width
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.width import column_count
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators


def wide(count: int) -> TableSchema:
    """A table with so many columns."""
    columns = (Column("id", INT64, nullable=False), *(Column(f"c{number}", STRING) for number in range(count - 1)))
    return TableSchema(TableId("shop", "wide"), columns, ("id",))


def codes(project: Project, schema: TableSchema) -> list[str]:
    """The codes of what the assessment says against the table; an error without a next step is none."""
    with project.target.create_table_assessor() as assessor:
        found = assessor.assess_table(schema).findings
    return [f.code for f in found if f.severity is Severity.ERROR and f.suggestion]


@pytest.mark.parametrize(("mode", "own"), [("batch", 0), ("cdc", 0), ("merge-flush", 1)])
def test_the_assessment_and_the_run_refuse_a_table_of_too_many_columns(
    mode: str, own: int, bigquery_emulators: Emulators
) -> None:
    project = Project(bigquery_emulators, mode=mode, schema_changes="fail")
    schema = wide(10_001 - own)
    assert codes(project, schema) == ["RPL-6502"]
    consumer = project.consumer()
    with pytest.raises(NeedsUserError, match=r"RPL-6502.*10,000") as refused:
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, schema))
    assert refused.value.table == "shop.wide"
    consumer.stop()


def test_mode_batch_takes_half_as_many_since_its_staging_table_has_each_column_twice(
    bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(bigquery_emulators)
    assert codes(project, wide(4_998)) == ["RPL-6502"]
    monkeypatch.setattr(width, "_MOST", 20)
    fits, exceeds = wide(7), wide(8)
    assert "RPL-6502" not in codes(project, fits)
    assert codes(project, exceeds) == ["RPL-6502"]
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, fits))
    consumer.apply_batch(batch(1, [insert({"id": 1}, fits)]))
    assert project.select("SELECT id FROM {d}.wide") == [["1"]]
    more = alter(2, exceeds, Alter(AlterKind.ADD_COLUMN, exceeds["c6"]))
    consumer.apply_ddl(more)
    with pytest.raises(NeedsUserError, match=r"RPL-6502.*staging"):
        consumer.apply_batch(batch(3, [insert({"id": 2}, exceeds)]))
    consumer.stop()


def test_a_column_that_is_one_too_many_is_refused_before_the_table_is_altered(
    bigquery_emulators: Emulators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that the source has no longer, and `schemaChanges` keeps, count."""
    project = Project(bigquery_emulators, schema_changes="newColumn")
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    monkeypatch.setattr(width, "_MOST", 4)
    retyped = replace_columns(KEYED, (KEYED["id"], Column("name", INT64), KEYED["note"]))
    with pytest.raises(NeedsUserError, match="RPL-6502"):
        consumer.apply_ddl(alter(2, retyped, Alter(AlterKind.RETYPE_COLUMN, retyped["name"], KEYED["name"])))
    monkeypatch.undo()
    assert project.select("SELECT name FROM {d}.customers") == [["a"]]
    consumer.stop()


def test_fields_inside_records_count_and_records_do_not() -> None:
    inner = Field("r", "STRUCT", fields=(Field("a", "INT64"), Field("s", "STRUCT", fields=(Field("b", "INT64"),))))
    assert column_count([Field("id", "INT64"), inner]) == 3
