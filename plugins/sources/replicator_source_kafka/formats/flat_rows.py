"""Rows that stand in records as they are: `ExtractNewRecordState`'s, and plain keyed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.formats.change_rows import keep
from replicator_source_kafka.formats.format import Part, Poison
from replicator_source_kafka.formats.record_keys import KeyGroup
from replicator_source_kafka.formats.rows import RowMaker
from replicator_source_kafka.formats.unavailable import Unavailable
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.hint import hinted_codec
from replicator_source_kafka.types.mapping import codec_of

_UPDATE, _DELETE = int(DMLOperation.UPDATE), int(DMLOperation.DELETE)
_ADDED = "__"
"""How the fields begin that ExtractNewRecordState adds (`add.fields.prefix`)."""


ReadKeys = Callable[[Mapping[str, Codec], Int64s], pa.StructArray]
"""The record keys at indexes, as structs of wire values; null for one that cannot be read."""


@dataclass(frozen=True, slots=True)
class FlatBlock:
    """Rows of one table, as they were read.

    Attributes:
        table: The table.
        kinds: The row's columns and their types, in order; without those that ExtractNewRecordState adds.
        codecs: How each travels, added ones included.
        rows: Struct of all columns as they are read.
        index: Which of the records each came from.
        key: The records' keys.
        hints: The types the settings give the table's columns.
    """

    table: TableId
    kinds: Mapping[str, ConnectType]
    codecs: Mapping[str, Codec]
    rows: pa.StructArray
    index: Int64s
    key: KeyGroup
    hints: Mapping[str, str]


def is_added(name: str, key: KeyGroup) -> bool:
    """Whether ExtractNewRecordState added the field; one that is in the key is a column (`__dbz__…`)."""
    return name.startswith(_ADDED) and name not in key.kinds


def key_codecs(key: KeyGroup, hints: Mapping[str, str]) -> dict[str, Codec]:
    """How the key's columns travel, where only the key tells."""
    if key.kind is not None:
        return {name: codec_of(field) for name, field in key.kind.fields}
    return {name: hinted_codec(kind, hints.get(name)) for name, kind in key.kinds.items()}


@dataclass(frozen=True, slots=True)
class FlatMaker:
    """Makes changes out of flat rows and tombstones of one partition.

    Attributes:
        records: The records.
        read_keys: Reads their keys.
        unavailable: Finds the stand-in for values that were not sent.
        rule: What becomes of values outside their types.
        poison: Takes records with values that are not of their types.
    """

    records: Records
    read_keys: ReadKeys
    unavailable: Unavailable
    rule: OutOfRange
    poison: list[Poison]

    def part(self, block: FlatBlock) -> Part:
        """Rows are updates (of rows that may not be there yet), those that are marked as deleted are deletes."""
        lacking = {n: c for n, c in key_codecs(block.key, block.hints).items() if n not in block.kinds}
        codecs = {**block.codecs, **lacking}
        kinds = {**block.kinds, **{name: _key_kind(block.key, name) for name in lacking}}
        maker = self._maker(block.table, kinds, codecs, block.key)
        rows = block.rows
        if lacking:
            keys = self.read_keys(lacking, block.index)
            children = dict(zip(rows.type.names, rows.flatten(), strict=True))
            children |= dict(zip(keys.type.names, keys.flatten(), strict=True))
            rows = pa.StructArray.from_arrays(list(children.values()), names=list(children))
        made = maker.make(rows, lambda i: self.records.place(int(block.index[i])))
        deleted = _deleted(block)
        ops = np.where(deleted, np.int8(_DELETE), np.int8(_UPDATE))
        before = self._before(made.row, maker.schema, deleted)
        stamps = _timestamps(block, self.records.timestamp[block.index])
        truncates = block.index[_is_op(block, "t")]
        part = Part(
            maker.schema,
            block.index,
            pa.array(ops, pa.int8()),
            made.row,
            before,
            False,
            stamps,
            made.unchanged,
            None,
            truncates,
        )
        bad = {**made.bad, **dict.fromkeys(np.flatnonzero(_is_op(block, "t")).tolist(), "")}
        self.poison.extend(
            Poison(int(block.index[i]), "RPL-3914", f"has a value of column {name!r} that is not of its type")
            for i, name in sorted(made.bad.items())
        )
        return keep(part, np.setdiff1d(np.arange(len(ops)), list(bad))) if bad else part

    def tombstones(self, table: TableId, index: Int64s, key: KeyGroup, codecs: Mapping[str, Codec]) -> Part:
        """Deletes of the rows that the keys of value-less records name."""
        maker = self._maker(table, {name: _key_kind(key, name) for name in codecs}, codecs, key)
        keys = self.read_keys(codecs, index)
        made = maker.make(keys, lambda i: self.records.place(int(index[i])))
        unread = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False)).tolist()
        bad = sorted({*made.bad, *unread})
        self.poison.extend(
            Poison(int(index[i]), "RPL-3916", "has a key with a value that is not of its type") for i in bad
        )
        ops = pa.array(np.full(len(index), _DELETE), pa.int8())
        stamps = _micros(self.records.timestamp[index])
        part = Part(maker.schema, index, ops, made.row, made.row, False, stamps)
        return keep(part, np.setdiff1d(np.arange(len(index)), bad)) if bad else part

    def _maker(
        self, table: TableId, kinds: Mapping[str, ConnectType], codecs: Mapping[str, Codec], key: KeyGroup
    ) -> RowMaker:
        columns = tuple(Column(n, codecs[n].kind, n not in key.kinds, kind.source_type) for n, kind in kinds.items())
        return RowMaker(TableSchema(table, columns, tuple(key.kinds)), codecs, self.unavailable, self.rule)

    @staticmethod
    def _before(rows: pa.StructArray, schema: TableSchema, deleted: np.ndarray) -> pa.StructArray | None:
        """The key of each deleted row."""
        if not deleted.any():
            return None
        children = [
            rows.field(i) if name in schema.primary_key else pa.nulls(len(rows), rows.type.field(i).type)
            for i, name in enumerate(schema.names)
        ]
        return pa.StructArray.from_arrays(children, fields=list(rows.type), mask=pa.array(~deleted))


def _key_kind(key: KeyGroup, name: str) -> ConnectType:
    found = key.kind.get(name) if key.kind else None
    return found or ConnectType(key.kinds[name])


def _column(block: FlatBlock, name: str) -> pa.Array | None:
    """An added field; None when there is none, or it is a column of the table."""
    at = -1 if name in block.kinds else block.rows.type.get_field_index(name)
    return block.rows.field(at) if at >= 0 else None


def _is(block: FlatBlock, name: str, value: str) -> np.ndarray:
    column = _column(block, name)
    if column is None or pa.types.is_nested(column.type):
        return np.zeros(len(block.index), np.bool_)
    hit: Callable[..., pa.Array] = pc.equal
    return np.asarray(hit(column.cast(pa.string()), value).fill_null(False).to_numpy(zero_copy_only=False))


def _is_op(block: FlatBlock, op: str) -> np.ndarray:
    return _is(block, "__op", op)


def _deleted(block: FlatBlock) -> np.ndarray:
    return np.asarray(_is(block, "__deleted", "true") | _is_op(block, "d"))


def _timestamps(block: FlatBlock, record_times: Int64s) -> Int64s:
    """When the source committed, where the fields were added; else when the record was written."""
    for name, factor in (("__source_ts_us", 1), ("__source_ts_ms", 1000), ("__ts_us", 1), ("__ts_ms", 1000)):
        column = _column(block, name)
        if column is not None and pa.types.is_integer(column.type) and not column.null_count:
            return np.asarray(column.to_numpy()) * factor
    return _micros(record_times)


def _micros(millis: Int64s) -> Int64s:
    return np.where(millis < 0, -1, millis * 1000)
