"""Says before a start what the target can hold and what it cannot."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

from replicator_sdk.datatype import JSON, TIME, UUID, Array, DataType, Record
from replicator_sdk.discovery.assessment import (
    Assessment,
    ColumnAssessment,
    Finding,
    Severity,
    Support,
    TableAssessment,
    TableAssessor,
)
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.arrangement.definition import new_partitioning, new_sorting
from replicator_target_iceberg.config import MAIN, CatalogType, IcebergConfig, Mode
from replicator_target_iceberg.naming import local_path
from replicator_target_iceberg.schema.definition import new_schema
from replicator_target_iceberg.schema.table_form import TableForm, form_of
from replicator_target_iceberg.schema.types import iceberg_type

_NOTES: Final[dict[DataType, str]] = {
    TIME: "text HH:MM:SS.ffffff: Spark reads no time of day from Iceberg",
    JSON: "text as the source writes it",
    UUID: "text in its 36-character form",
}
_UNTRIED: Final = frozenset({CatalogType.HIVE, CatalogType.GLUE, CatalogType.CUSTOM})
_FOLDERS: Final = frozenset({"hdfs", "viewfs"})
_OPENED: Final = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasbs", *_FOLDERS})


class IcebergAssessor(TableAssessor):
    """Judges by settings and schemas alone; starts neither Spark nor a connection."""

    def __init__(self, config: IcebergConfig) -> None:
        self._config = config

    def assess(self) -> Assessment:
        """Whether the files can be written, as far as that can be seen without writing, and what no test shows."""
        return Assessment((*self._catalog(), *self._warehouse(), *self._branch(), _NOT_THERE))

    def _branch(self) -> list[Finding]:
        if self._config.branch == MAIN:
            return []
        return [
            Finding(
                "columns_of_all_branches",
                Severity.INFO,
                "Iceberg has columns, partitions and properties for a whole table, not for each branch",
                f"a change of columns at the source is seen in `main` at once, its rows only once `main` is fast-forwarded to {self._config.branch!r}",
                "leave `branch` out where readers of `main` must not see the one before the other",
            )
        ]

    def _catalog(self) -> list[Finding]:
        if self._config.catalog_type not in _UNTRIED:
            return []
        return [
            Finding(
                "catalog_not_tried",
                Severity.WARNING,
                f"no test of the replicator shows a catalog of the type {self._config.catalog_type}",
                "that two runs cannot overwrite each other's commits is the catalog's own promise",
                "try it with a small table first",
            )
        ]

    def _warehouse(self) -> list[Finding]:
        where = self._config.warehouse
        if not where or self._config.catalog_type is CatalogType.REST:
            return []
        path = local_path(where)
        if path is not None:
            return _on_disk(Path(path))
        scheme = where.split("://", 1)[0]
        if self._config.catalog_type is CatalogType.HADOOP and scheme not in _FOLDERS:
            return [
                Finding(
                    "folders_as_catalog",
                    Severity.ERROR,
                    f"a catalog of the type hadoop commits by renaming a file, which {scheme}:// does not do at once",
                    "two runs could overwrite each other's commits",
                    "set `catalogType` to jdbc or rest for this `warehouse`",
                    code="RPL-3429",
                )
            ]
        if scheme not in _OPENED:
            remedy = "use a `warehouse` on a local path, s3, gs, abfss, or hdfs"
            return [_error("warehouse_not_opened", f"pyarrow opens no {scheme}:// locations", remedy, "RPL-3424")]
        return [
            Finding(
                "warehouse_not_tried",
                Severity.WARNING,
                f"no test of the replicator shows Iceberg tables on {scheme}://",
                "what is said of them is Iceberg's and pyarrow's own promise",
                "try it with a small table first",
            )
        ]

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """How each column arrives, and which names Spark cannot hold beside each other."""
        columns = tuple(self._column(column) for column in schema.columns)
        try:
            form = form_of(self._config, schema)
        except NeedsUserError as error:
            return TableAssessment(schema.table, columns, (_impossible(schema, error),))
        twins = self._twins(schema, form)
        arranged = [] if twins else self._arranged(schema, form)
        moving = self._partitioned_otherwise(schema, form)
        return TableAssessment(schema.table, columns, (*twins, *arranged, *moving, *self._keyless(schema)))

    def _partitioned_otherwise(self, schema: TableSchema, form: TableForm) -> list[Finding]:
        """What follows where the rows of a key may be in several partitions."""
        terms = self._config.partitioning_of(schema.table) or ()
        others = sorted({term.column for term in terms} - set(schema.primary_key))
        if form.keys is None or not others:
            return []
        return [
            Finding(
                "partitions_of_other_columns",
                Severity.WARNING,
                f"the table is partitioned by {', '.join(map(repr, others))}, which the key does not have",
                "a row and what replaces or deletes it may be in several partitions: compaction keeps both, and the table grows",
                "partition by columns of the key, or have the source log whole rows and partition by columns that do not change",
                table=schema.table,
            )
        ]

    def _arranged(self, schema: TableSchema, form: TableForm) -> list[Finding]:
        """What keeps a new table from having the partitions and the sort order of the settings."""
        columns, name, table = new_schema(schema, form), str(schema.table), schema.table
        try:
            new_partitioning(columns, self._config.partitioning_of(table) or (), name)
            new_sorting(columns, self._config.sorting_of(table), name)
        except NeedsUserError as error:
            return [
                Finding(
                    "arrangement_refused",
                    Severity.ERROR,
                    error.message,
                    "the table cannot be created",
                    error.hint,
                    table=table,
                    code=error.code,
                )
            ]
        return []

    def _column(self, column: Column) -> ColumnAssessment:
        note = _note(column.type)
        support = Support.PARTIAL if note else Support.YES
        return ColumnAssessment(column.name, column.source_type, _text(iceberg_type(column.type)), support, note)

    def _twins(self, schema: TableSchema, form: TableForm) -> list[Finding]:
        names = [*schema.names, *form.own_names]
        counted = Counter(name.lower() for name in names)
        return [
            Finding(
                "column_names_meet",
                Severity.ERROR,
                f"the columns {', '.join(repr(n) for n in names if n.lower() == low)} are one name to Spark",
                "the table cannot be created",
                "leave one out by `columns`",
                table=schema.table,
                code="RPL-6421",
            )
            for low, count in counted.items()
            if count > 1
        ]

    def _keyless(self, schema: TableSchema) -> list[Finding]:
        if schema.primary_key or self._config.mode is Mode.APPEND:
            return []
        return [
            Finding(
                "no_key",
                Severity.INFO,
                "the table has no key",
                "changes are applied to whole rows; each update or delete reads and compares all columns",
                "give the table a primary key if it is large and often changed",
                table=schema.table,
            )
        ]


_NOT_THERE: Final = Finding(
    "not_there_yet",
    Severity.INFO,
    "rows are looked for by the driver, not by Spark's executors",
    "a cluster does not make changes of large tables faster; in the mode append `replicator verify` does not compare the tables",
    "use the target delta where that is needed",
)


def _impossible(schema: TableSchema, error: NeedsUserError) -> Finding:
    what = "the table stops before its first row"
    return Finding(
        "mode_impossible", Severity.ERROR, error.message, what, error.hint, table=schema.table, code=error.code
    )


def _on_disk(root: Path) -> list[Finding]:
    nearest = root
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        return [_not_writable(f"{nearest} is a file, not a folder", "choose another `warehouse`")]
    if os.access(nearest, os.W_OK | os.X_OK):
        return []
    remedy = "grant write rights on it, or choose another `warehouse`"
    return [_not_writable(f"{nearest} cannot be written by this user", remedy)]


def _not_writable(cause: str, remedy: str) -> Finding:
    return _error("warehouse_not_writable", cause, remedy, "RPL-3423")


def _error(name: str, cause: str, remedy: str, code: str) -> Finding:
    return Finding(name, Severity.ERROR, cause, "no table can be created", remedy, code=code)


def _note(kind: DataType) -> str:
    """What is changed on the way, also deep inside."""
    if isinstance(kind, Array):
        return _note(kind.element)
    if isinstance(kind, Record):
        return "; ".join(dict.fromkeys(filter(None, (_note(inner) for _, inner in kind.fields))))
    return _NOTES.get(kind, "")


def _text(kind: Any) -> str:
    """A type in JSON form as people write it."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "list":
        return f"list<{_text(kind['element'])}>"
    return f"struct<{', '.join(inner['name'] + ': ' + _text(inner['type']) for inner in kind['fields'])}>"
