"""A table's `metaData`: made from a source's schema, and changed step by step by its DDL."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, Final

from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.merge_on_read import PRIMARY_KEY, WATERMARK_KEY, MergeOnReadDefinition
from replicator_sdk.row_versions import END_SEQUENCE, IS_CURRENT, SEQUENCE, VALID_FROM, VALID_TO, VERSION_END_KEY
from replicator_sdk.schema import Column, TableSchema
from replicator_target_delta.config import BATCH_ID, IS_DELETED, OPERATION, SOURCE_TIMESTAMP, TOMBSTONE
from replicator_target_delta.schema.table_form import KEY_MARKS, KEY_PROPERTIES, TableForm, names_keys
from replicator_target_delta.schema.types import IdentityGiver, same_type, spark_type

_HIGHEST_ID: Final = "delta.columnMapping.maxColumnId"
_PROPERTIES: Final = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.domainMetadata": "supported",
    # A checkpoint costs as much as ten small commits and holds the commit up that writes it: maintenance writes them.
    "delta.checkpointInterval": "500",
}
_METADATA_TYPES: Final = {
    SEQUENCE: "long",
    BATCH_ID: "string",
    OPERATION: "string",
    IS_DELETED: "boolean",
    TOMBSTONE: "string",
    SOURCE_TIMESTAMP: "timestamp",
    VALID_FROM: "timestamp",
    VALID_TO: "timestamp",
    IS_CURRENT: "boolean",
    END_SEQUENCE: "long",
}


class TableDefinition:
    """The `metaData` content of one table, being changed; not shared between threads.

    Args:
        metadata: As the log has it; not changed itself.
    """

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._metadata = metadata
        self._fields: list[dict[str, Any]] = json.loads(metadata["schemaString"])["fields"]
        self._ids = IdentityGiver(int(metadata["configuration"].get(_HIGHEST_ID, "0")))

    @classmethod
    def create(cls, schema: TableSchema, form: TableForm) -> TableDefinition:
        """The definition of a new table: the source's columns, then the metadata columns.

        Raises:
            SchemaDriftError: When Delta cannot hold the columns beside each other.
        """
        empty = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": []}),
            "partitionColumns": [],
            "configuration": _PROPERTIES | form.properties,
            "createdTime": int(time.time() * 1000),
        }
        definition = cls(empty)
        for column in schema.columns:
            definition.add(column, str(schema.table))
        for kind, name in form.names.items():
            definition._add(name, _METADATA_TYPES[kind], str(schema.table))
        return definition

    def replaced(self, schema: TableSchema, form: TableForm) -> TableDefinition:
        """The definition of the same table created again: other columns, new physical names."""
        fresh = json.loads(TableDefinition.create(schema, form).to_metadata()["schemaString"])
        fields = [self._ids.field(f["name"], f["type"]) for f in fresh["fields"]]
        made = TableDefinition(
            {
                **self._metadata,
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "configuration": {**self._metadata["configuration"], _HIGHEST_ID: str(self._ids.highest)},
            }
        )
        made.follow(form)
        return made

    def evolved(self, schema: TableSchema, form: TableForm) -> TableDefinition:
        """The definition of the same table of versions with other columns, where rows of before keep what they have: a column keeps its values
        as long as it keeps name and type, and one of the replicator's own under any `metadataPrefix`.
        """
        made, table = TableDefinition(self.to_metadata()), str(schema.table)
        wanted = {c.name: spark_type(c.type) for c in schema.columns}
        wanted |= {name: _METADATA_TYPES[kind] for kind, name in form.names.items()}
        prefix = str(self._metadata["configuration"][VERSION_END_KEY]).removesuffix(END_SEQUENCE)
        own = {prefix + kind: name for kind, name in form.names.items() if prefix + kind not in wanted}
        for name in [field["name"] for field in made._fields]:
            if name not in own and (name not in wanted or not same_type(wanted[name], made.type_of(name))):
                made.drop(name)
        for former, name in own.items():
            if made.has(former):
                made.rename(former, name, table)
        for name, kind in wanted.items():
            if not made.has(name):
                made._add(name, kind, table)
        made.follow(form)
        return made

    def follow(self, form: TableForm) -> None:
        """Have the table's properties name the keys of `form`, and no others."""
        if not form.properties and not names_keys(self._metadata["configuration"]):
            return  # properties of these names are the owner's
        others = {k: v for k, v in self._metadata["configuration"].items() if k not in KEY_PROPERTIES}
        self._metadata = {**self._metadata, "configuration": others | form.properties}

    @property
    def keys(self) -> MergeOnReadDefinition | None:
        """The keys that the properties name to readers; None for a merged table."""
        properties = self._metadata["configuration"]
        return MergeOnReadDefinition.from_properties(properties) if WATERMARK_KEY in properties else None

    @property
    def has_versions(self) -> bool:
        """Whether the table has every version of a row."""
        return VERSION_END_KEY in self._metadata["configuration"]

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The physical names of the key that the properties name to readers; empty for a merged table."""
        names: list[str] = json.loads(self._metadata["configuration"].get(PRIMARY_KEY, "[]"))
        return tuple(self.physical(name) for name in names)

    def to_metadata(self) -> dict[str, Any]:
        """The content of a `metaData` action."""
        return {
            **self._metadata,
            "schemaString": json.dumps({"type": "struct", "fields": self._fields}, ensure_ascii=False),
            "configuration": {**self._metadata["configuration"], _HIGHEST_ID: str(self._ids.highest)},
        }

    def matches(self, schema: TableSchema, form: TableForm) -> bool:
        """Whether the table has exactly these columns and types, in any order, and its readers these keys."""
        properties, keys = self._metadata["configuration"], form.properties
        if any(properties.get(name) != keys.get(name) for name in (KEY_PROPERTIES if keys else KEY_MARKS)):
            return False
        wanted = {c.name: spark_type(c.type) for c in schema.columns}
        wanted |= {name: _METADATA_TYPES[kind] for kind, name in form.names.items()}
        here = {f["name"]: f["type"] for f in self._fields}
        return wanted.keys() == here.keys() and all(same_type(wanted[name], here[name]) for name in wanted)

    def has(self, name: str) -> bool:
        """Whether there is a column of exactly this name."""
        return any(f["name"] == name for f in self._fields)

    def type_of(self, name: str) -> Any:
        """Spark's JSON type of a column."""
        return self._field(name)["type"]

    def physical(self, name: str) -> str:
        """The name a column has in the files."""
        return str(self._field(name)["metadata"]["delta.columnMapping.physicalName"])

    def add(self, column: Column, table: str) -> None:
        """Add a column at the end; old files have NULL in it."""
        self._add(column.name, spark_type(column.type), table)

    def drop(self, name: str) -> None:
        """Take a column out; its values stay in old files, unseen."""
        self._fields.remove(self._field(name))

    def rename(self, old: str, new: str, table: str) -> None:
        """Give a column another name; files are not touched."""
        field = self._field(old)
        self._refuse_twin(new, table, but=old)
        field["name"] = new

    def replace_type(self, column: Column) -> None:
        """Give a column another type under a new physical name, in its place; all files have NULL in it until written."""
        place = self._fields.index(self._field(column.name))
        self._fields[place] = self._ids.field(column.name, spark_type(column.type))

    def _add(self, name: str, kind: Any, table: str) -> None:
        self._refuse_twin(name, table)
        self._fields.append(self._ids.field(name, kind))

    def _field(self, name: str) -> dict[str, Any]:
        return next(f for f in self._fields if f["name"] == name)

    def _refuse_twin(self, name: str, table: str, but: str = "") -> None:
        """Raise when another column has this name but for its case."""
        twins = [f["name"] for f in self._fields if f["name"].lower() == name.lower() and f["name"] != but]
        if twins:
            raise SchemaDriftError(
                f"Delta takes the columns {twins[0]!r} and {name!r} for one",
                code="RPL-6401",
                table=table,
                hint="leave one out by `columns`, or choose another `metadataPrefix` or `tombstoneKey` if one is the replicator's own",
            )
