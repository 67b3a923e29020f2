"""Reads JSON texts into columns: with Arrow's reader, and with a slow, exact reader where Arrow's fails."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.json_records.json_value import fit
from replicator_source_kafka.types.column_codec import needs_slow_reader

_BLOCK_BYTES = 8 << 20
_FEW = 16
"""A block that Arrow refuses is split into this many parts; blocks of at most this size are read record by record."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects in some texts.

    Attributes:
        rows: A struct for each text that could be read, in order.
        index: The indexes of those texts, ascending.
        bad: The indexes of the other texts and what is wrong with each, ascending.
    """

    rows: pa.StructArray
    index: Int64s
    bad: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Reads one object from each text.

    Every text is put between `head` and `tail`, so that it becomes an object with a member `payload`. So no text can be
    skipped or joined with the next one: if there are as many objects as texts, their order is the same.

    Attributes:
        wire: The struct to read; members of other names are ignored.
        head: Put before each text.
        tail: Put after it.
        payload_of: Returns the payload of one text as Python values, for the slow reader.
        on_type: Called with the type that Arrow read, including members of other names.
        strict: Whether to use the slow reader only, which never reads text in quotes as a number.
    """

    wire: pa.StructType
    head: bytes
    tail: bytes
    payload_of: Callable[[bytes], Any]
    on_type: Callable[[pa.StructType], None] | None = None
    strict: bool = False

    def read(self, texts: pa.Array) -> Objects:
        """The objects in `texts` (binary, without NULL)."""
        found: list[pa.StructArray] = []
        places: list[Int64s] = []
        bad: list[tuple[int, str]] = []
        slow = self.strict or needs_slow_reader(self.wire)
        for start, stop in _blocks(texts):
            self._read(texts, start, stop, slow, found, places, bad)
        rows = pa.concat_arrays(found) if found else pa.array([], self.wire)
        return Objects(rows, np.concatenate(places) if places else np.zeros(0, np.int64), bad)

    def _read(
        self,
        texts: pa.Array,
        start: int,
        stop: int,
        slow: bool,
        found: list[pa.StructArray],
        places: list[Int64s],
        bad: list[tuple[int, str]],
    ) -> None:
        rows = None if slow else self._fast(texts[start:stop])
        if rows is not None:
            found.append(rows)
            places.append(np.arange(start, stop))
        elif slow or stop - start <= _FEW:
            self._slowly(texts, start, stop, found, places, bad)
        else:
            step = -(-(stop - start) // _FEW)
            for first in range(start, stop, step):
                self._read(texts, first, min(first + step, stop), slow, found, places, bad)

    def _fast(self, texts: pa.Array) -> pa.StructArray | None:
        """All texts as columns; None if Arrow refuses one of them."""
        text = _join(texts, self.head, self.tail)
        schema = pa.schema([pa.field("payload", self.wire)])
        unexpected = "infer" if self.on_type else "ignore"
        parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
        read = arrow_json.ReadOptions(use_threads=False, block_size=max(text.size, 1))
        try:
            # Arrow's reader does not check that strings are UTF-8.
            pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(np.array([0, text.size])), text]).validate(
                full=True
            )
            table = arrow_json.read_json(pa.BufferReader(text), read_options=read, parse_options=parse)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if len(table) != len(texts):
            return None
        rows = table.column("payload").combine_chunks()
        if self.on_type:
            self.on_type(rows.type)
        return only(rows, self.wire)

    def _slowly(
        self,
        texts: pa.Array,
        start: int,
        stop: int,
        found: list[pa.StructArray],
        places: list[Int64s],
        bad: list[tuple[int, str]],
    ) -> None:
        values: list[Any] = []
        kept: list[int] = []
        for i, text in enumerate(texts[start:stop].to_pylist(), start):
            try:
                value = fit(self.payload_of(text), self.wire)
                pa.array([value], self.wire)
            except (ValueError, RecursionError, OverflowError) as error:
                bad.append((i, _reason(error)))
            else:
                values.append(value)
                kept.append(i)
        found.append(pa.array(values, self.wire))
        places.append(np.array(kept, np.int64))


def only(rows: pa.Array, wire: pa.DataType) -> pa.Array:
    """`rows` with only the members of `wire`."""
    if rows.type == wire or not pa.types.is_struct(wire):
        return rows
    children = [only(rows.field(rows.type.get_field_index(f.name)), f.type) for f in wire]
    mask = rows.is_null() if rows.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wire), mask=mask)


def _reason(error: Exception) -> str:
    """What is wrong, without any value: the messages of Python and Arrow may contain one."""
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON (at byte {error.pos})"
    if isinstance(error, UnicodeError):
        return "is not UTF-8"
    if type(error) is ValueError:
        return str(error)
    return "holds a value that does not fit its declared type"


def _blocks(texts: pa.Array) -> list[tuple[int, int]]:
    """Ranges of texts, in blocks that fit the processor's cache."""
    if not len(texts):
        return []
    ends = np.cumsum(pc.binary_length(texts).to_numpy())
    cuts = np.searchsorted(ends, np.arange(_BLOCK_BYTES, ends[-1], _BLOCK_BYTES))
    edges = np.unique(np.concatenate([[0], cuts, [len(texts)]])).tolist()
    return list(itertools.pairwise(edges))


def _join(texts: pa.Array, head: bytes, tail: bytes) -> pa.Buffer:
    """All texts as one, each between `head` and `tail` on its own line."""
    wide = texts.cast(pa.large_binary())
    ends = pa.array([b"", b""], pa.large_binary())
    framed = pa.concat_arrays([ends[:1], wide, ends[1:]])
    one = pa.LargeListArray.from_arrays(pa.array([0, len(framed)], pa.int64()), framed)
    # Before the first separator there is only a `tail` and a line end, after the last one only a `head`.
    text = pc.binary_join(one, pa.scalar(tail + b"\n" + head, pa.large_binary()))[0].as_buffer()
    return text.slice(len(tail), text.size - len(tail) - len(head))
