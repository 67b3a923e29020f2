"""The keys that a target writes into a merge-on-read table: chosen by its settings, checked against a source's table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from replicator_sdk.datatype import BOOL, Array, DataType, Record
from replicator_sdk.merge_on_read.definition import MergeOnReadDefinition
from replicator_sdk.schema import TableSchema

Refusal = Callable[[str, str], Exception]
"""Makes the error of a table that the keys cannot work for, of the reason and what to do."""


@dataclass(frozen=True, slots=True)
class WrittenKeys:
    """The keys of one table that a target writes. Immutable; picklable.

    Attributes:
        definition: By what readers find the latest row; it has a tombstone key.
        sent: The watermark keys that are columns of the source.
        tombstone_is_sent: Whether the tombstone key is a column of the source, whose values then say which rows readers see.
    """

    definition: MergeOnReadDefinition
    sent: tuple[str, ...]
    tombstone_is_sent: bool

    @property
    def tombstone(self) -> str:
        """The name of the tombstone key."""
        name = self.definition.tombstone_key
        assert name is not None, "a target always names one"
        return name

    @property
    def drops_tombstones(self) -> bool:
        """Whether a deletion may go with the rows that it is later than: the watermark is a sequence number, so no older row can come,
        and a deleted row has no values that a later update may not send.
        """
        return not self.sent and len(self.definition.watermark_keys) == 1 and not self.tombstone_is_sent


@dataclass(frozen=True, slots=True)
class KeySettings:
    """What a target's settings say of the keys. Immutable.

    Attributes:
        watermark_keys: Columns of the source, or of `own`, whose values say how fresh a row is.
        tombstone_key: The column that says that a row is deleted; one that the target makes where the source's table has none of the name.
        tombstone_string_key_value: What that column has in deleted rows, where it is a text.
        sequence: The target's column of sequence numbers; of rows with equal watermarks the later change is newer.
        own: The target's columns that may be watermark keys, `sequence` among them.
        is_text: Whether the target stores a type as text.
    """

    watermark_keys: tuple[str, ...]
    tombstone_key: str
    tombstone_string_key_value: str | None
    sequence: str
    own: Collection[str]
    is_text: Callable[[DataType], bool]

    def keys_of(self, schema: TableSchema, refused: Refusal) -> WrittenKeys:
        """The keys of the table of a source's table.

        Raises:
            Exception: What `refused` makes, when they cannot work for it.
        """
        if not schema.primary_key:
            raise refused(
                "it has no key, and readers take the latest row of each", "give it a primary key at the source"
            )
        is_sent = self.tombstone_key in schema
        if is_sent:
            self._check_tombstone(schema, refused)
        elif self.tombstone_key in self.own:
            raise refused(
                f"column {self.tombstone_key!r}, the tombstone key, is the replicator's own and has two parts then",
                "choose another `tombstoneKey`",
            )
        watermarks = self._watermarks(schema, refused)
        both = {*schema.primary_key, self.tombstone_key} & set(watermarks)
        if twice := both or {self.tombstone_key} & set(schema.primary_key):
            raise refused(
                f"column {min(twice)!r} has two parts in its keys",
                "choose other `watermarkKeys` or another `tombstoneKey`",
            )
        definition = MergeOnReadDefinition(
            schema.primary_key, watermarks, self.tombstone_key, self.tombstone_string_key_value
        )
        return WrittenKeys(definition, tuple(name for name in watermarks if name in schema), is_sent)

    def _watermarks(self, schema: TableSchema, refused: Refusal) -> tuple[str, ...]:
        for name in self.watermark_keys:
            if name not in self.own and name not in schema:
                raise refused(
                    f"it has no column {name!r}, a watermark key", "correct `watermarkKeys`, or leave the setting out"
                )
            if name in schema and not _is_primitive(schema[name].type):
                raise refused(
                    f"column {name!r}, a watermark key, is of no primitive type", "choose other `watermarkKeys`"
                )
        given = self.watermark_keys
        return given if self.sequence in given else (*given, self.sequence)

    def _check_tombstone(self, schema: TableSchema, refused: Refusal) -> None:
        column, name = schema[self.tombstone_key], self.tombstone_key
        if not _is_primitive(column.type):
            raise refused(
                f"column {name!r}, the tombstone key, is of no primitive type", "choose another `tombstoneKey`"
            )
        is_named = self.tombstone_string_key_value is not None
        if is_named and not self.is_text(column.type):
            raise refused(
                f"`tombstoneStringKeyValue` is set, and column {name!r} is not a text",
                "remove that setting, or choose another `tombstoneKey`",
            )
        if not is_named and column.type != BOOL and not column.nullable:
            raise refused(
                f"column {name!r}, the tombstone key, is never NULL, so every row would be a deleted one",
                "choose another `tombstoneKey`",
            )


def _is_primitive(kind: Any) -> bool:
    return not isinstance(kind, Array | Record)
