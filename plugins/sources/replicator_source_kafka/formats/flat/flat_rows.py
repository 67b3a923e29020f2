"""Converts flat rows, which are the whole value of a record, into changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.formats.format import Part, Poison, failed_part
from replicator_source_kafka.formats.json_records.record_keys import KeyGroup
from replicator_source_kafka.formats.row_maker import RowMaker
from replicator_source_kafka.formats.unavailable import UnavailableValues
from replicator_source_kafka.records import Records
from replicator_source_kafka.types.column_codec import Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.standard_types import codec_of
from replicator_source_kafka.types.type_hints import hinted_codec

_INSERT, _UPDATE, _DELETE = int(DMLOperation.INSERT), int(DMLOperation.UPDATE), int(DMLOperation.DELETE)
_UNKNOWN = -1
_ADDED = "__"
"""The prefix of fields that ExtractNewRecordState adds (`add.fields.prefix`)."""


ReadKeys = Callable[[Mapping[str, Codec], Int64s], pa.StructArray]
"""Reads the keys of the records at indexes, as structs of wire values; null for a key that cannot be read."""


@dataclass(frozen=True, slots=True)
class FlatBlock:
    """Rows of one table, as they were read.

    Attributes:
        table: The table.
        kinds: The row's columns and their types, in order; without those that ExtractNewRecordState adds.
        codecs: The codec of each column, including added ones.
        rows: Struct of all columns as they are read.
        index: The index of the record of each row.
        key: The records' keys.
        hints: The configured types of the table's columns.
        operations: What each row says it does; None where rows do not say it.
    """

    table: TableId
    kinds: Mapping[str, ConnectType]
    codecs: Mapping[str, Codec]
    rows: pa.StructArray
    index: Int64s
    key: KeyGroup
    hints: Mapping[str, str]
    operations: pa.StringArray | None = None


def is_added(name: str, key: KeyGroup) -> bool:
    """Whether ExtractNewRecordState added the field; a field in the key is a column (`__dbz__…`)."""
    return name.startswith(_ADDED) and name not in key.kinds


def key_codecs(key: KeyGroup, hints: Mapping[str, str]) -> dict[str, Codec]:
    """Codecs of columns that are in the key only."""
    if key.kind is not None:
        return {name: codec_of(field) for name, field in key.kind.fields}
    return {name: hinted_codec(kind, hints.get(name)) for name, kind in key.kinds.items()}


@dataclass(frozen=True, slots=True)
class FlatRowMaker:
    """Creates changes from flat rows and tombstones of one partition.

    Attributes:
        records: The records.
        read_keys: Reads their keys.
        unavailable: Finds the placeholder of values that were not sent.
        rule: The policy for values that their types cannot hold.
        poison: Receives records with values that are not of their types.
        operations: What the values of `FlatBlock.operations` mean.
        operation_field: The field that has them.
    """

    records: Records
    read_keys: ReadKeys
    unavailable: UnavailableValues
    rule: OutOfRange
    poison: list[Poison]
    operations: Mapping[str, DMLOperation] = field(default_factory=dict)
    operation_field: str = ""

    def part(self, block: FlatBlock) -> Part:
        """Rows become updates (of rows that may not exist yet), or what their operation says; rows marked as deleted become deletes."""
        in_key_only = {n: c for n, c in key_codecs(block.key, block.hints).items() if n not in block.kinds}
        codecs = {**block.codecs, **in_key_only}
        kinds = {**block.kinds, **{name: _key_kind(block.key, name) for name in in_key_only}}
        maker = self._maker(block.table, kinds, codecs, block.key)
        rows = block.rows
        if in_key_only:
            rows = _with_columns(rows, _columns(self.read_keys(in_key_only, block.index)))
        rows = self._with_keys(rows, block, codecs)
        ops = self._ops(block)
        deleted, truncates = ops == _DELETE, _is_op(block, "t")
        try:
            made = maker.make(rows, lambda i: self.records.position(int(block.index[i])))
        except DataError as error:
            codes, emptied = pa.array(ops[~truncates], pa.int8()), block.index[truncates]
            return failed_part(maker.schema, block.index[~truncates], codes, error, truncates=emptied)
        before = self._before(made.row, maker.schema, deleted)
        for mask in made.unchanged.values():  # what an insert lacks is taken from the row there: it is an update
            ops = np.where(mask.to_numpy(zero_copy_only=False) & (ops == _INSERT), np.int8(_UPDATE), ops)
        stamps = _timestamps(block, self.records.timestamp[block.index])
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
            block.index[truncates],
        )
        unknown = np.flatnonzero(ops == _UNKNOWN)
        self.poison.extend(
            Poison(int(i), "RPL-3919", f"has in {self.operation_field} no operation that operations names", block.table)
            for i in block.index[unknown]
        )
        bad = {**made.bad, **dict.fromkeys([*np.flatnonzero(truncates).tolist(), *unknown.tolist()], "")}
        self.poison.extend(
            Poison(
                int(block.index[i]), "RPL-3914", f"has a value of column {name!r} that is not of its type", block.table
            )
            for i, name in sorted(made.bad.items())
        )
        return part.take(np.setdiff1d(np.arange(len(ops)), list(bad))) if bad else part

    def _with_keys(self, rows: pa.StructArray, block: FlatBlock, codecs: Mapping[str, Codec]) -> pa.StructArray:
        """The same with what a value lacks of its key taken from the record's key: a delete need not say more than its operation."""
        found = _columns(rows)
        lacking = {n: codecs[n] for n in block.key.kinds if n in block.kinds and found[n].null_count}
        if not lacking:
            return rows
        keys = _columns(self.read_keys(lacking, block.index))
        same = [name for name, values in keys.items() if values.type == found[name].type]
        return _with_columns(rows, {name: pc.coalesce(found[name], keys[name]) for name in same})

    def _ops(self, block: FlatBlock) -> np.ndarray:
        """Of each row the code of its operation; `_UNKNOWN` where it has none."""
        if block.operations is None:
            return np.where(_deleted(block), np.int8(_DELETE), np.int8(_UPDATE))
        coded = block.operations.dictionary_encode(null_encoding="encode")
        meant = [self.operations.get(value or "", _UNKNOWN) for value in coded.dictionary.to_pylist()]
        found: np.ndarray = np.array(meant, np.int8)[coded.indices.to_numpy()]
        return found

    def tombstones(self, table: TableId, index: Int64s, key: KeyGroup, codecs: Mapping[str, Codec]) -> Part:
        """Deletes of the rows that the keys of records without a value name."""
        maker = self._maker(table, {name: _key_kind(key, name) for name in codecs}, codecs, key)
        keys = self.read_keys(codecs, index)
        ops = pa.array(np.full(len(index), _DELETE), pa.int8())
        try:
            made = maker.make(keys, lambda i: self.records.position(int(index[i])))
        except DataError as error:
            return failed_part(maker.schema, index, ops, error)
        unread = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False)).tolist()
        bad = sorted({*made.bad, *unread})
        self.poison.extend(
            Poison(int(index[i]), "RPL-3916", "has a key with a value that is not of its type", table) for i in bad
        )
        stamps = _micros(self.records.timestamp[index])
        part = Part(maker.schema, index, ops, made.row, made.row, False, stamps)
        return part.take(np.setdiff1d(np.arange(len(index)), bad)) if bad else part

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


def _columns(rows: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip(rows.type.names, rows.flatten(), strict=True))


def _with_columns(rows: pa.StructArray, columns: Mapping[str, pa.Array]) -> pa.StructArray:
    """The same rows with further columns, or others of the same names."""
    found = {**_columns(rows), **columns}
    return pa.StructArray.from_arrays(list(found.values()), names=list(found))


def _key_kind(key: KeyGroup, name: str) -> ConnectType:
    found = key.kind.get(name) if key.kind else None
    return found or ConnectType(key.kinds[name])


def _column(block: FlatBlock, name: str) -> pa.Array | None:
    """An added field; None if it does not exist, or is a column of the table."""
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
    """The source's commit time, if that field was added; otherwise the time of the record."""
    for name, factor in (("__source_ts_us", 1), ("__source_ts_ms", 1000), ("__ts_us", 1), ("__ts_ms", 1000)):
        column = _column(block, name)
        if column is not None and pa.types.is_integer(column.type) and not column.null_count:
            return np.asarray(column.to_numpy()) * factor
    return _micros(record_times)


def _micros(millis: Int64s) -> Int64s:
    return np.where(millis < 0, -1, millis * 1000)
