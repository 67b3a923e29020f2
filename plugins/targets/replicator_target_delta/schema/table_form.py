"""What a table has beside the source's columns: the replicator's own, and where a key has several rows the keys of its readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from replicator_sdk.datatype import DataType
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.merge_on_read import (
    PRIMARY_KEY,
    TOMBSTONE_KEY,
    TOMBSTONE_STRING_KEY_VALUE,
    WATERMARK_KEY,
)
from replicator_sdk.merge_on_read.keys import KeySettings, WrittenKeys
from replicator_sdk.row_versions import END_SEQUENCE, SEQUENCE, VERSION_END_KEY
from replicator_sdk.schema import TableSchema
from replicator_target_delta.config import IS_DELETED, METADATA_COLUMNS, SOURCE_TIMESTAMP, TOMBSTONE, DeltaConfig, Mode
from replicator_target_delta.schema.types import spark_type

KEY_PROPERTIES: Final = (PRIMARY_KEY, WATERMARK_KEY, TOMBSTONE_KEY, TOMBSTONE_STRING_KEY_VALUE, VERSION_END_KEY)
KEY_MARKS: Final = (WATERMARK_KEY, VERSION_END_KEY)
"""Without either, properties of these names are the owner's."""
_TEXT: Final = "string"


@dataclass(frozen=True, slots=True)
class TableForm:
    """Immutable; picklable.

    Attributes:
        names: Metadata column → its name in the table, in the order of the table's columns.
        keys: By what readers find the latest row; None for a table that is not one of the mode `merge-on-read`.
        primary_key: Of a table of versions, the columns that say which row it is a version of; else empty.
    """

    names: dict[str, str] = field(default_factory=dict)
    keys: WrittenKeys | None = None
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
        return {} if self.keys is None else self.keys.definition.to_properties()


def form_of(config: DeltaConfig, schema: TableSchema) -> TableForm:
    """The form of the table for a source's table.

    Raises:
        NeedsUserError: RPL-3417 when the mode cannot work for it.
    """
    own = config.metadata_names()
    if config.mode is Mode.MERGE:
        return TableForm(own)
    if config.mode is Mode.SCD2:
        if not schema.primary_key:
            what = "give it a primary key at the source"
            raise _refused(schema, "it has no key, and a version is one of a key", what, config.mode)
        return TableForm(own, primary_key=schema.primary_key)
    tombstone = config.tombstone_key or config.metadata_prefix + IS_DELETED
    settings = KeySettings(
        config.watermark_keys,
        tombstone,
        config.tombstone_string_key_value,
        own[SEQUENCE],
        {own[kind] for kind in (SEQUENCE, SOURCE_TIMESTAMP) if kind in own},
        _is_text,
    )
    keys = settings.keys_of(schema, lambda why, what: _refused(schema, why, what))
    if not keys.tombstone_is_sent:
        own[IS_DELETED if config.tombstone_string_key_value is None else TOMBSTONE] = tombstone
    return TableForm({kind: own[kind] for kind in METADATA_COLUMNS if kind in own}, keys)


def _is_text(kind: DataType) -> bool:
    return bool(spark_type(kind) == _TEXT)


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
