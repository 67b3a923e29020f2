"""What a table has beside the source's columns: the replicator's own, and where a key has several rows the keys of its readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from replicator_sdk.datatype import BOOL, Array, DataType, Record
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.merge_on_read import (
    PRIMARY_KEY,
    TOMBSTONE_KEY,
    TOMBSTONE_STRING_KEY_VALUE,
    WATERMARK_KEY,
    MergeOnReadDefinition,
)
from replicator_sdk.schema import TableSchema
from replicator_target_delta.config import (
    END_SEQUENCE,
    IS_DELETED,
    METADATA_COLUMNS,
    SEQUENCE,
    SOURCE_TIMESTAMP,
    TOMBSTONE,
    DeltaConfig,
    Mode,
)
from replicator_target_delta.schema.types import spark_type

VERSION_END_KEY: Final = "version_end_key"
"""The property of a table of versions that names the column which is NULL in current ones."""
KEY_PROPERTIES: Final = (PRIMARY_KEY, WATERMARK_KEY, TOMBSTONE_KEY, TOMBSTONE_STRING_KEY_VALUE, VERSION_END_KEY)
KEY_MARKS: Final = (WATERMARK_KEY, VERSION_END_KEY)
"""Without either, properties of these names are the owner's."""
_TEXT: Final = "string"


@dataclass(frozen=True, slots=True)
class TableForm:
    """Immutable; picklable.

    Attributes:
        names: Metadata column → its name in the table, in the order of the table's columns.
        definition: By what readers find the latest row; None for a table that is not one of the mode `merge-on-read`.
        sent: The watermark keys that are columns of the source.
        tombstone_is_sent: Whether the tombstone key is a column of the source.
        primary_key: Of a table of versions, the columns that say which row it is a version of; else empty.
    """

    names: dict[str, str] = field(default_factory=dict)
    definition: MergeOnReadDefinition | None = None
    sent: tuple[str, ...] = ()
    tombstone_is_sent: bool = False
    primary_key: tuple[str, ...] = ()

    @property
    def has_versions(self) -> bool:
        """Whether the table has every version of a row."""
        return bool(self.primary_key)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that say so to readers."""
        if self.has_versions:
            return {PRIMARY_KEY: json.dumps(list(self.primary_key)), VERSION_END_KEY: self.names[END_SEQUENCE]}
        return {} if self.definition is None else self.definition.to_properties()


def form_of(config: DeltaConfig, schema: TableSchema) -> TableForm:
    """The form of the table for a source's table.

    Raises:
        NeedsUserError: RPL-3417 when the mode cannot work for it.
    """
    if config.mode is Mode.MERGE:
        return TableForm(config.metadata_names())
    if not schema.primary_key:
        is_versions = config.mode is Mode.SCD2
        why = "a version is one of a key" if is_versions else "readers take the latest row of each"
        raise _refused(schema, f"it has no key, and {why}", "give it a primary key at the source", config.mode)
    if config.mode is Mode.SCD2:
        return TableForm(config.metadata_names(), primary_key=schema.primary_key)
    own = config.metadata_names()
    tombstone = config.tombstone_key or config.metadata_prefix + IS_DELETED
    if is_sent := tombstone in schema:
        _check_tombstone(config, schema, tombstone)
    else:
        own[TOMBSTONE if config.tombstone_string_key_value is not None else IS_DELETED] = tombstone
    names: dict[str, str] = {kind: own[kind] for kind in METADATA_COLUMNS if kind in own}
    watermarks = _watermarks(config, schema, names)
    twice = {*schema.primary_key, tombstone} & set(watermarks) or {tombstone} & set(schema.primary_key)
    if twice:
        raise _refused(
            schema,
            f"column {min(twice)!r} has two parts in its keys",
            "choose other `watermarkKeys` or another `tombstoneKey`",
        )
    value = config.tombstone_string_key_value
    definition = MergeOnReadDefinition(schema.primary_key, watermarks, tombstone, value)
    return TableForm(names, definition, tuple(name for name in watermarks if name in schema), is_sent)


def _watermarks(config: DeltaConfig, schema: TableSchema, names: dict[str, str]) -> tuple[str, ...]:
    """The watermark keys; of rows with equal ones the later change is newer, so the sequence number is always among them."""
    ours = {names[kind] for kind in (SEQUENCE, SOURCE_TIMESTAMP) if kind in names}
    for name in config.watermark_keys:
        if name not in ours and name not in schema:
            raise _refused(
                schema,
                f"it has no column {name!r}, a watermark key",
                "correct `watermarkKeys`, or leave the setting out",
            )
        if name in schema and not _is_primitive(schema[name].type):
            raise _refused(
                schema, f"column {name!r}, a watermark key, is of no primitive type", "choose other `watermarkKeys`"
            )
    sequence = names[SEQUENCE]
    return config.watermark_keys if sequence in config.watermark_keys else (*config.watermark_keys, sequence)


def _check_tombstone(config: DeltaConfig, schema: TableSchema, name: str) -> None:
    kind = schema[name].type
    if not _is_primitive(kind):
        raise _refused(
            schema, f"column {name!r}, the tombstone key, is of no primitive type", "choose another `tombstoneKey`"
        )
    if config.tombstone_string_key_value is not None and spark_type(kind) != _TEXT:
        raise _refused(
            schema,
            f"`tombstoneStringKeyValue` is set, and column {name!r} is not a text",
            "remove that setting, or choose another `tombstoneKey`",
        )
    if config.tombstone_string_key_value is None and kind != BOOL and not schema[name].nullable:
        raise _refused(
            schema,
            f"column {name!r}, the tombstone key, is never NULL, so every row would be a deleted one",
            "choose another `tombstoneKey`",
        )


def _is_primitive(kind: DataType) -> bool:
    return not isinstance(kind, Array | Record)


def names_keys(properties: Mapping[str, str]) -> bool:
    """Whether a table's properties name keys to its readers."""
    return any(name in properties for name in KEY_MARKS)


def _refused(schema: TableSchema, why: str, next_step: str, mode: Mode = Mode.MERGE_ON_READ) -> NeedsUserError:
    return NeedsUserError(
        f"the table cannot be written in the mode {mode.value}: {why}",
        code="RPL-3417",
        table=str(schema.table),
        hint=f"{next_step}; or leave the table out of `tables`",
    )
