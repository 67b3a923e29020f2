"""Converts envelopes in columns into changes by table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.formats.envelope.envelope_schema import Envelope
from replicator_source_kafka.formats.format import Part, Poison, failed_part
from replicator_source_kafka.formats.row_maker import RowMaker, Rows, indexes
from replicator_source_kafka.formats.unavailable import UnavailableValues

_INSERT, _UPDATE, _DELETE = int(DMLOperation.INSERT), int(DMLOperation.UPDATE), int(DMLOperation.DELETE)
_TRUNCATE, _NO_CHANGE, _UNKNOWN = 4, 5, 6
_OPS = ("c", "r", "u", "d", "t", "m")
_CODES = np.array([_INSERT, _INSERT, _UPDATE, _DELETE, _TRUNCATE, _NO_CHANGE, _UNKNOWN], np.int8)

ReadKeys = Callable[[Int64s], "pa.StructArray | None"]
"""Reads the keys of the records at indexes, as a struct of at least the key's columns; None for records without keys."""


@dataclass(frozen=True, slots=True)
class Block:
    """Envelopes of one schema, as they were read.

    Attributes:
        envelope: Their schema.
        payload: Struct of `envelope.wire`.
        index: The index of the record of each envelope.
        read_keys: Reads record keys, for deletes without a row before.
        position: Returns the position of the record at an index, for errors.
        unavailable: Finds the placeholder of values that were not sent.
        rule: The policy for values that their types cannot hold.
    """

    envelope: Envelope
    payload: pa.StructArray
    index: Int64s
    read_keys: ReadKeys
    position: Callable[[int], str]
    unavailable: UnavailableValues
    rule: OutOfRange

    def take(self, positions: Int64s) -> Block:
        """The envelopes at `positions`."""
        if len(positions) == len(self.index):
            return self
        payload, index = self.payload.take(pa.array(positions)), self.index[positions]
        return Block(self.envelope, payload, index, self.read_keys, self.position, self.unavailable, self.rule)


def changes_of(block: Block, poison: list[Poison]) -> list[Part]:
    """The changes by table; invalid envelopes are added to `poison`."""
    parts = []
    for table, positions in tables_of(block.payload.field("source")):
        mine, ops = _known(block.take(positions), table, poison)
        if table is None:
            poison.extend(Poison(int(i), "RPL-3912", "does not name its table") for i in mine.index)
        elif len(mine.index):
            parts.append(_part(table, mine, ops, poison))
    return [part for part in parts if len(part) or len(part.truncates)]


@cache
def _ops() -> pa.StringArray:
    """`_OPS`; not made at import, since the first array of Python values imports pandas, which takes a sixth of a second."""
    return pa.array(_OPS)


def _known(block: Block, table: TableId | None, poison: list[Poison]) -> tuple[Block, np.ndarray]:
    """The block without envelopes that are not changes, or lack a row that their operation needs."""
    ops = _CODES[pc.index_in(block.payload.field("op"), _ops()).fill_null(len(_OPS)).to_numpy()]
    before, after = (_present(block.payload.field(name)) for name in ("before", "after"))
    no_op = (ops == _UNKNOWN) | ~_present(block.payload)
    no_row = ((ops == _INSERT) | (ops == _UPDATE)) & ~after
    keyless = (not block.envelope.key) & ((ops == _UPDATE) | (ops == _DELETE)) & ~before
    for hit, code, reason in (
        (no_op, "RPL-3910", "is not a change of Debezium's: it has no known op"),
        (no_row, "RPL-3911", "has no row after an insert or update"),
        (
            keyless & ~no_row,
            "RPL-3913",
            "updates or deletes a row of a table without a key, and does not contain the row before",
        ),
    ):
        poison.extend(Poison(int(i), code, reason, table) for i in block.index[hit])
    wanted = ~(no_op | no_row | keyless | (ops == _NO_CHANGE))
    if wanted.all():
        return block, ops
    return block.take(np.flatnonzero(wanted)), ops[wanted]


def _present(values: pa.Array) -> np.ndarray:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))


def tables_of(source: pa.StructArray) -> list[tuple[TableId | None, Int64s]]:
    """The positions of each table; None for sources that name no table."""
    if not len(source):
        return []
    columns = dict(zip(source.type.names, source.flatten(), strict=True))
    names = [columns.get(part, pa.nulls(len(source), pa.string())) for part in ("db", "schema", "table")]
    coded = [name.dictionary_encode(null_encoding="encode") for name in names]
    codes = np.zeros(len(source), np.int64)
    for column in coded:
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    _, firsts, groups = np.unique(codes, return_index=True, return_inverse=True)
    found: list[tuple[TableId | None, Int64s]] = []
    for group, first in enumerate(firsts):
        database, schema, table = (name[int(first)].as_py() for name in names)
        identity = TableId(database or "", table, schema or "") if table and (database or schema) else None
        positions = np.flatnonzero(groups == group) if len(firsts) > 1 else np.arange(len(source))
        found.append((identity, positions))
    return found


def _part(table: TableId, block: Block, ops: np.ndarray, poison: list[Poison]) -> Part:
    """One table's changes."""
    truncates = block.index[ops == _TRUNCATE]
    if len(truncates):
        block, ops = block.take(np.flatnonzero(ops != _TRUNCATE)), ops[ops != _TRUNCATE]
    maker = RowMaker(_schema(table, block.envelope), block.envelope.codecs, block.unavailable, block.rule)
    position = _position_of(block)
    try:
        rows = maker.make(block.payload.field("after"), position)
        before = _before(block, ops, maker, position)
    except DataError as error:
        written = _transaction(block.payload)
        codes = pa.array(ops, pa.int8())
        return failed_part(maker.schema, block.index, codes, error, transaction=written, truncates=truncates)
    bad = {**rows.bad, **before.bad}
    unsent = np.zeros(len(ops), np.bool_)
    for mask in rows.unchanged.values():
        unsent |= mask.to_numpy(zero_copy_only=False)
    # The missing values of an insert can only be taken from the existing row, so it is an update.
    ops = np.where(unsent & (ops == _INSERT), np.int8(_UPDATE), ops)
    part = Part(
        schema=maker.schema,
        index=block.index,
        op=pa.array(ops, pa.int8()),
        row=rows.row,
        before=before.row,
        before_is_full=not block.envelope.key,
        timestamps=_timestamps(block.payload.field("source")),
        unchanged=rows.unchanged,
        transaction=_transaction(block.payload),
        truncates=truncates,
    )
    if not bad:
        return part
    poison.extend(
        Poison(int(block.index[i]), "RPL-3914", f"has a value of column {column!r} that is not of its type", table)
        for i, column in sorted(bad.items())
    )
    return part.take(np.setdiff1d(np.arange(len(ops)), list(bad)))


def _position_of(block: Block) -> Callable[[int], str]:
    return lambda i: block.position(int(block.index[i]))


def _schema(table: TableId, envelope: Envelope) -> TableSchema:
    columns = tuple(
        Column(name, envelope.codecs[name].kind, kind.optional, kind.source_type) for name, kind in envelope.columns
    )
    return TableSchema(table, columns, envelope.key)


def _before(block: Block, ops: np.ndarray, maker: RowMaker, position: Callable[[int], str]) -> Rows:
    """The rows before; for a delete without one, the record's key. Null for an update without one."""
    before = block.payload.field("before")
    missing = np.flatnonzero((ops == _DELETE) & ~_present(before))
    if len(missing) and (keys := block.read_keys(block.index[missing])) is not None:
        before = _filled(before, missing, keys)
    rows = maker.make(before, position)
    # A row of a table without a key is found by all its values only: none may be missing.
    still = (ops == _DELETE) & ~_present(before)
    bad = {**rows.bad, **dict.fromkeys(indexes(still).tolist(), "key")}
    if not block.envelope.key:
        for name, mask in rows.unchanged.items():
            bad |= dict.fromkeys(indexes(mask).tolist(), name)
    children = [rows.row.field(i) for i in range(rows.row.type.num_fields)]
    mask = pa.array(~_present(before)) if before.null_count else None
    return Rows(pa.StructArray.from_arrays(children, fields=list(rows.row.type), mask=mask), {}, bad)


def _filled(before: pa.StructArray, missing: Int64s, keys: pa.StructArray) -> pa.StructArray:
    """`before` with the keys inserted where it is missing."""
    order = np.arange(len(before))
    order[missing] = len(before) + np.arange(len(missing))
    keyed = dict(zip(keys.type.names, keys.flatten(), strict=True))
    children = [keyed.get(f.name, pa.nulls(len(keys), f.type)).cast(f.type) for f in before.type]
    mask = pa.array(~_present(keys))
    as_before = pa.StructArray.from_arrays(children, fields=list(before.type), mask=mask)
    return pa.concat_arrays([before, as_before]).take(pa.array(order))


def _timestamps(source: pa.StructArray) -> Int64s:
    """The source's commit time in microseconds."""
    columns = dict(zip(source.type.names, source.flatten(), strict=True))
    micros = columns.get("ts_us", pa.nulls(len(source), pa.int64()))
    if micros.null_count and "ts_ms" in columns:
        micros = pc.coalesce(micros, pc.multiply(columns["ts_ms"], 1000))
    return np.asarray(micros.fill_null(-1).to_numpy())


def _transaction(payload: pa.StructArray) -> pa.StringArray | None:
    if "transaction" not in payload.type.names:
        return None
    ids = payload.field("transaction").flatten()[0]
    return None if ids.null_count == len(ids) else ids
