"""What the reader emits of tables of which some columns are wanted."""

from __future__ import annotations

from pathlib import Path

from replicator_sdk import AlterKind, Column, DDLEvent, DDLOperation, TableId, TableSchema
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.recording import recording
from tests.plugins.sources.archive.source_system import ArchiveSystem


def test_wanted_columns_are_followed_to_their_new_names_and_truncates_arrive(tmp_path: Path) -> None:
    system = ArchiveSystem(tmp_path / "archive")
    columns = (Column("id", INT64, False), Column("name", STRING), Column("city", STRING))
    table = system.create_table("people", TableSchema(TableId("main", "people"), columns, ("id",)))
    with system.source.create_table_registry() as registry:
        schema = registry.describe_table(table)
    with recording(system.source, {table: schema.select(["name"])}, None, narrowed=True) as reader:
        reader.run()
        for step in (
            Step("rename_column", "people", {"name": "city", "to": "town"}),
            Step("rename_column", "people", {"name": "name", "to": "label"}),
            Step("truncate", "people", {}),
            Step("insert", "people", {"rows": [{"id": 1, "label": "a", "town": "b"}]}),
        ):
            with system.source.create_table_registry() as registry:
                system.execute([(step, registry.describe_table(table))])
        emitted = [logged.change for logged in reader.catch_up(30)]
    first, second, third = emitted
    assert isinstance(first, DDLEvent)
    assert isinstance(second, DDLEvent)
    assert [alter.kind for alter in first.alters] == [AlterKind.RENAME_COLUMN]
    assert second.operation is DDLOperation.TRUNCATE_TABLE
    assert not isinstance(third, DDLEvent)
    assert third.row == {"id": 1, "label": "a"}
