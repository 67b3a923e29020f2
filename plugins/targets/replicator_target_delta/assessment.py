"""Says before a start what the target can hold and what it cannot."""

from __future__ import annotations

import os
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

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
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.location import absolute, is_on_azure, is_on_cloud_storage, is_on_disk, is_on_s3
from replicator_target_delta.schema.table_form import form_of
from replicator_target_delta.schema.types import spark_type

_NOTES: dict[DataType, str] = {
    TIME: "text HH:MM:SS.ffffff: Delta has no time of day",
    JSON: "text as the source writes it",
    UUID: "text in its 36-character form",
}
_ON_S3 = Finding(
    "commits_on_s3",
    Severity.INFO,
    "commits to S3 need a store with conditional writes (`If-None-Match`) and Hadoop 3.4.2 or later",
    "where either is missing the run ends before its first commit; other programs that write to the tables must write conditionally too",
    "let no program without conditional writes write to the tables; try the store with a small table first",
    code="RPL-3409",
)
_ON_AZURE = Finding(
    "commits_on_azure",
    Severity.INFO,
    "commits to Azure are written by adlfs, with a condition (`If-None-Match`)",
    "adlfs, pyarrow and Spark each need credentials; other programs that write to the tables must write conditionally too",
    "let no program without conditional writes write to the tables; try the store with a small table first",
    code="RPL-3409",
)
_NO_ADLFS = Finding(
    "commits_on_azure",
    Severity.ERROR,
    "adlfs, by which commits to Azure are written, is not installed",
    "no table can be created",
    "install it: `pip install 'replicator[azure]'`",
    code="RPL-3409",
)
_ON_CLOUD_STORAGE = Finding(
    "commits_on_cloud_storage",
    Severity.INFO,
    "commits to Cloud Storage are written by gcsfs, with a condition (`ifGenerationMatch`)",
    "gcsfs, pyarrow and Spark each need credentials; a zonal bucket is refused before the first commit; other programs that write to the tables must write conditionally too",
    "let no program without conditional writes write to the tables; try the store with a small table first",
    code="RPL-3409",
)
_NO_GCSFS = Finding(
    "commits_on_cloud_storage",
    Severity.ERROR,
    "gcsfs, by which commits to Cloud Storage are written, is not installed",
    "no table can be created",
    "install it: `pip install 'replicator[gcs]'`",
    code="RPL-3409",
)
_NOT_TRIED = frozenset({"hdfs", "viewfs"})


def _elsewhere(root: str) -> Finding:
    """What is to be known of a store that is no disk."""
    if is_on_s3(root):
        return _ON_S3
    if is_on_azure(root):
        return _ON_AZURE if find_spec("adlfs") else _NO_ADLFS
    if is_on_cloud_storage(root):
        return _ON_CLOUD_STORAGE if find_spec("gcsfs") else _NO_GCSFS
    scheme = root.split("://", 1)[0]
    if scheme not in _NOT_TRIED:
        return Finding(
            "path_not_opened",
            Severity.ERROR,
            f"pyarrow opens no {scheme}:// locations",
            "no table can be created",
            "use a local path, s3, gs, abfss, or hdfs",
            code="RPL-3407",
        )
    return Finding(
        "commits_not_tried",
        Severity.WARNING,
        f"that two runs cannot overwrite each other's commits on {scheme}:// is Delta's own promise (a rename takes no other file's place), which no test of the replicator shows",
        "where the store does not keep it, a run that was taken for dead and goes on can overwrite a commit of the run that replaced it",
        "end a run for certain before you start another one on another machine; try the store with a small table first",
    )


class DeltaAssessor(TableAssessor):
    """Judges by settings and schemas alone; starts neither Spark nor a connection."""

    def __init__(self, config: DeltaConfig) -> None:
        self._config = config

    def assess(self) -> Assessment:
        """Whether the folder can be written, as far as that can be seen without writing."""
        root = absolute(self._config.path)
        if not is_on_disk(root):
            return Assessment((_elsewhere(root),))
        nearest = Path(root)
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir():
            return Assessment((_not_writable(f"{nearest} is a file, not a folder", "choose another `path`"),))
        if os.access(nearest, os.W_OK | os.X_OK):
            return Assessment()
        cause, remedy = (
            f"{nearest} cannot be written by this user",
            "grant write rights on it, or choose another `path`",
        )
        return Assessment((_not_writable(cause, remedy),))

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """How each column arrives, and which names Delta cannot hold beside each other."""
        columns = tuple(self._column(column) for column in schema.columns)
        found = self._refused(schema)
        return TableAssessment(schema.table, columns, found or (*self._twins(schema), *self._keyless(schema)))

    def _refused(self, schema: TableSchema) -> tuple[Finding, ...]:
        """Why the table cannot be written in the mode; empty when it can."""
        try:
            form_of(self._config, schema)
        except NeedsUserError as error:
            what, next_step = "the table stops before its first row", error.hint
            return (
                Finding(
                    "mode_impossible",
                    Severity.ERROR,
                    error.message,
                    what,
                    next_step,
                    table=schema.table,
                    code=error.code,
                ),
            )
        return ()

    def _column(self, column: Column) -> ColumnAssessment:
        note = _note(column.type)
        support = Support.PARTIAL if note else Support.YES
        return ColumnAssessment(column.name, column.source_type, _text(spark_type(column.type)), support, note)

    def _twins(self, schema: TableSchema) -> list[Finding]:
        """Delta's names differ by more than case only; the metadata columns count too."""
        names = [*schema.names, *form_of(self._config, schema).names.values()]
        counted = Counter(name.lower() for name in names)
        return [
            Finding(
                "column_names_meet",
                Severity.ERROR,
                f"the columns {', '.join(repr(n) for n in names if n.lower() == low)} are one name to Delta",
                "the table cannot be created",
                "leave one out by `columns`, or choose another `metadataPrefix` or `tombstoneKey` if one is the replicator's own",
                table=schema.table,
                code="RPL-6401",
            )
            for low, count in counted.items()
            if count > 1
        ]

    def _keyless(self, schema: TableSchema) -> list[Finding]:
        if schema.primary_key:
            return []
        return [
            Finding(
                "no_key",
                Severity.INFO,
                "the table has no key",
                "changes are applied to whole rows; each update or delete compares all columns",
                "give the table a primary key if it is large and often changed",
                table=schema.table,
            )
        ]


def _note(kind: DataType) -> str:
    """What is changed on the way, also deep inside."""
    if isinstance(kind, Array):
        return _note(kind.element)
    if isinstance(kind, Record):
        return "; ".join(dict.fromkeys(filter(None, (_note(inner) for _, inner in kind.fields))))
    return _NOTES.get(kind, "")


def _not_writable(cause: str, remedy: str) -> Finding:
    return Finding("path_not_writable", Severity.ERROR, cause, "no table can be created", remedy, code="RPL-3403")


def _text(kind: object) -> str:
    """Spark's JSON type as SQL writes it."""
    if isinstance(kind, dict) and kind["type"] == "array":
        return f"array<{_text(kind['elementType'])}>"
    if isinstance(kind, dict):
        return f"struct<{','.join(f['name'] + ':' + _text(f['type']) for f in kind['fields'])}>"
    return str(kind)
