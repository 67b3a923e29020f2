"""Finds the tables of records that are not named by their topic: by a field, or by rules about it (seed 004, fan-out)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.schema import TableId
from replicator_source_kafka.formats.flat.table_name import DEFAULT_DATABASE, named
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.record_settings import Route

_LACKS = "lacks the field that names its table (tableField)"


def named_tables(values: pa.Array, topic: str, index: Int64s, poison: list[Poison]) -> Iterator[tuple[TableId, Int64s]]:
    """The positions of each table that the values name; NULL and empty ones are added to `poison`."""
    names, places = _coded(values)
    for code, name in enumerate(names):
        positions = np.flatnonzero(places == code)
        if name:
            yield named(name, topic), positions
        else:
            poison.extend(Poison(int(i), "RPL-3912", _LACKS) for i in index[positions])


def routed_tables(
    routes: Sequence[Route], values: pa.Array, index: Int64s, poison: list[Poison]
) -> Iterator[tuple[TableId, Int64s]]:
    """The positions of each table that routes name, of which some may be those of others; of no route, they are added to `poison`.

    A rule is tried once for each value that is there, not for each record.
    """
    names, places = _coded(values)
    tables: dict[TableId, np.ndarray] = {}
    is_routed = np.zeros(len(names), np.bool_)
    for route in routes:
        takes = np.array([route.takes(name) for name in names], np.bool_)
        is_routed |= takes
        if route.table is not None:
            table = named(route.table, DEFAULT_DATABASE)
            tables[table] = tables.get(table, np.zeros(len(names), np.bool_)) | takes
    for code in np.flatnonzero(~is_routed):
        code_and_reason = ("RPL-3912", _LACKS) if names[code] is None else ("RPL-3918", "is of no route (routes)")
        poison.extend(Poison(int(i), *code_and_reason) for i in index[places == code])
    for table, takes in tables.items():
        positions = np.flatnonzero(takes[places])
        if len(positions):
            yield table, positions


def _coded(values: pa.Array) -> tuple[list[str | None], Int64s]:
    """The different values, and for each position which it has."""
    coded = values.cast(pa.string()).dictionary_encode(null_encoding="encode")
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
