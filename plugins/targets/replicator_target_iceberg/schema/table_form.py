"""What a table has beside the source's columns, by mode; where a key has several rows, also the keys of its readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from replicator_sdk.datatype import DataType
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.merge_on_read import PRIMARY_KEY
from replicator_sdk.merge_on_read.keys import KeySettings, WrittenKeys
from replicator_sdk.row_versions import END_SEQUENCE, IS_CURRENT, VALID_FROM, VALID_TO, VERSION_END_KEY
from replicator_sdk.row_versions import SEQUENCE as SEQUENCE_KIND
from replicator_sdk.schema import TableSchema
from replicator_target_iceberg.config import IS_DELETED, OWN_TOMBSTONE, IcebergConfig, Mode
from replicator_target_iceberg.schema.types import iceberg_type

SEQUENCE: Final = "_sequence_num"
SOURCE_TIMESTAMP: Final = "_source_timestamp"
BEFORE: Final = "_before"
HISTORY: Final = {
    "_op": "string",
    SEQUENCE: "long",
    SOURCE_TIMESTAMP: "timestamptz",
    "_unchanged": {"type": "list", "element-id": 0, "element-required": False, "element": "string"},
}
"""The columns that tables of the mode `append` have before the source's; after these comes `_before`."""
VERSION_NAMES: Final = {
    VALID_FROM: "_valid_from",
    VALID_TO: "_valid_to",
    IS_CURRENT: "_is_current",
    SEQUENCE_KIND: SEQUENCE,
    END_SEQUENCE: "_end_sequence_num",
}
"""Kind of column of a table of versions → its name."""
_VERSIONS: Final = {
    "_valid_from": "timestamptz",
    "_valid_to": "timestamptz",
    "_is_current": "boolean",
    SEQUENCE: "long",
    "_end_sequence_num": "long",
    SOURCE_TIMESTAMP: "timestamptz",
}


@dataclass(frozen=True, slots=True)
class TableForm:
    """Immutable; picklable.

    Attributes:
        mode: Of the target.
        leading: The columns before the source's, with their types in Iceberg's JSON form.
        keys: By what readers find the latest row; None for a table that is not one of the mode `merge-on-read`.
        primary_key: Of a table of versions, the columns that say which row it is a version of; else empty.
    """

    mode: Mode
    leading: Mapping[str, Any] = field(default_factory=dict)
    keys: WrittenKeys | None = None
    primary_key: tuple[str, ...] = ()

    @property
    def has_versions(self) -> bool:
        """Whether the table has every version of a row."""
        return self.mode is Mode.SCD2

    @property
    def is_history(self) -> bool:
        """Whether each change is a row that also says what was before."""
        return self.mode is Mode.APPEND

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the columns that a table has beside the source's."""
        return (*self.leading, BEFORE) if self.is_history else tuple(self.leading)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that name its keys to readers."""
        if self.has_versions:
            return {PRIMARY_KEY: json.dumps(list(self.primary_key)), VERSION_END_KEY: VERSION_NAMES[END_SEQUENCE]}
        if self.keys is None:
            return {}
        is_own = "false" if self.keys.tombstone_is_sent else "true"
        return {**self.keys.definition.to_properties(), OWN_TOMBSTONE: is_own}


def form_of(config: IcebergConfig, schema: TableSchema) -> TableForm:
    """The form of the table for a source's table.

    Raises:
        NeedsUserError: RPL-3444 when the mode cannot work for it.
    """
    if config.mode is Mode.SCD2:
        if not schema.primary_key:
            why = "it has no key, and a version is one of a key"
            raise _refused(schema, why, "give it a primary key at the source", config.mode)
        return TableForm(config.mode, _VERSIONS, primary_key=schema.primary_key)
    if config.mode is not Mode.MERGE_ON_READ:
        return TableForm(config.mode, HISTORY if config.mode is Mode.APPEND else {})
    tombstone, value = config.tombstone_key or IS_DELETED, config.tombstone_string_key_value
    own = (SEQUENCE, SOURCE_TIMESTAMP)
    settings = KeySettings(config.watermark_keys, tombstone, value, SEQUENCE, own, _is_text)
    keys = settings.keys_of(schema, lambda why, what: _refused(schema, why, what, config.mode))
    made = {} if keys.tombstone_is_sent else {tombstone: "boolean" if value is None else "string"}
    return TableForm(config.mode, {**made, **{name: HISTORY[name] for name in own}}, keys)


def _is_text(kind: DataType) -> bool:
    return bool(iceberg_type(kind) == "string")


def _refused(schema: TableSchema, why: str, next_step: str, mode: Mode) -> NeedsUserError:
    return NeedsUserError(
        f"the table cannot be written in the mode {mode.value}: {why}",
        code="RPL-3444",
        table=str(schema.table),
        hint=f"{next_step}; or leave the table out of `tables`",
    )
