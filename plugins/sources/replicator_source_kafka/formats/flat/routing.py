"""Finds the tables of records that are not named by their topic: by a field, or by rules about it (seed 004, fan-out)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.schema import TableId
from replicator_source_kafka.formats.flat.table_name import DEFAULT_DATABASE, named
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.record_settings import Route

_LACKS = "lacks the field that names its table (tableField), or has no text in it"


def text_field(rows: pa.StructArray, name: str | None) -> pa.StringArray:
    """A field of rows as text; NULL where it is missing, or is not a text, number or truth value."""
    at = -1 if name is None else rows.type.get_field_index(name)
    if at < 0:
        return pa.nulls(len(rows), pa.string())
    values = rows.field(at)
    is_text = pa.types.is_string(values.type) or pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
    return values.cast(pa.string()) if is_text else pa.nulls(len(rows), pa.string())


def named_tables(values: pa.Array, topic: str, index: Int64s, poison: list[Poison]) -> Iterator[tuple[TableId, Int64s]]:
    """The positions of each table that the values name; NULL and empty ones are added to `poison`."""
    names, places = _coded(values)
    order = np.argsort(places, kind="stable")
    ends = [0, *np.cumsum(np.bincount(places, minlength=len(names))).tolist()]
    for name, (start, stop) in zip(names.to_pylist(), pairwise(ends), strict=True):
        positions = order[start:stop]
        if name:
            yield named(name, topic), positions
        else:
            poison.extend(Poison(int(i), "RPL-3912", _LACKS) for i in index[positions])


def routed_tables(
    routes: Sequence[Route], values: pa.Array, index: Int64s, poison: list[Poison], *, field: str = ""
) -> Iterator[tuple[TableId, Int64s]]:
    """The positions of each table that routes name, of which some may be those of others; of no route, they are added to `poison`.
    The values are those of `field`.

    A rule is tried once for each value that is there, not for each record.
    """
    names, places = _coded(values)
    tables: dict[TableId, np.ndarray] = {}
    is_routed = np.zeros(len(names), np.bool_)
    for route in routes:
        takes = route.takes(names)
        is_routed |= takes
        if route.table is not None:
            table = named(route.table, DEFAULT_DATABASE)
            tables[table] = tables.get(table, np.zeros(len(names), np.bool_)) | takes
    lacking = names.is_null().to_numpy(zero_copy_only=False)
    for position in np.flatnonzero(~is_routed[places]):
        code, reason = (
            ("RPL-3912", _LACKS)
            if lacking[places[position]]
            else ("RPL-3918", f"is taken by no rule of routes, by its {field}")
        )
        poison.append(Poison(int(index[position]), code, reason))
    for table, takes in tables.items():
        positions = np.flatnonzero(takes[places])
        if len(positions):
            yield table, positions


def route_tables(routes: Sequence[Route]) -> tuple[TableId, ...]:
    """The tables that routes name, each once, in their order."""
    return tuple(dict.fromkeys(named(route.table, DEFAULT_DATABASE) for route in routes if route.table is not None))


def _coded(values: pa.Array) -> tuple[pa.StringArray, Int64s]:
    """The different values, and for each position which it has."""
    coded = values.dictionary_encode(null_encoding="encode")
    return coded.dictionary, coded.indices.to_numpy().astype(np.int64)
