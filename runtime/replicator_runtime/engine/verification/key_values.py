"""Looks up the keys of rows by their hashes: the only values of rows that a comparison returns, where it is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.verification import checksums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from replicator_runtime.engine.verification.verdict import Observed
    from replicator_sdk import TableSchema


def key_values(
    sides: Iterable[DataFrame], schema: TableSchema, observed: Observed, spark: SparkSession
) -> Iterator[dict[str, Any]]:
    """For each key that either side still has: its columns' values (all columns without a key), and what differs.

    Args:
        sides: The source's rows and the target's.
        schema: The table's schema.
        observed: The keys.
        spark: The session.
    """
    kinds = {
        (int(row["k1"]), int(row["k2"])): [name for name in ("missing", "surplus", "different") if row[name]]
        for row in observed
    }
    names = schema.primary_key or schema.names
    places = [schema.names.index(name) for name in names]
    for rows in sides:
        for hash_of_key, values in checksums.values_of(rows, schema, places, observed, spark):
            if (kind := kinds.pop(hash_of_key, None)) is not None:
                yield {"key": dict(zip(names, map(_shown, values), strict=True)), "is": kind}


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
