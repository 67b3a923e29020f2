"""Finds the keys in which a table that no one writes differs from the source's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicator_runtime.engine.repair.request_keys import KEYS_AT_MOST
from replicator_runtime.engine.verification import checksums
from replicator_runtime.engine.verification.verdict import KEY, keys_of
from replicator_sdk import chunk_dataframe
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from replicator_sdk import TableSnapshot, TableVersion


def differing_keys(
    spark: SparkSession, snapshot: TableSnapshot, version: TableVersion, left_out: frozenset[str]
) -> Any:
    """Hashes of the keys that differ, an array of `KEY`; where the source changes meanwhile perhaps of some more, never of fewer.

    Reads both tables once, and the source's once more where they differ.

    Args:
        spark: The session.
        snapshot: The source's rows.
        version: The target's, which are not written meanwhile.
        left_out: The operations that the pipeline leaves out of the table; what follows from them is no difference.

    Raises:
        NeedsUserError: RPL-1376 when more than `KEYS_AT_MOST` differ.
    """
    schema = snapshot.schema

    def source() -> DataFrame:
        return checksums.hashed(chunk_dataframe(spark, schema, snapshot.chunks, snapshot.read, version.form), schema)

    target = checksums.hashed(version.rows, schema)
    buckets = checksums.bucket_sums(source()).differing(checksums.bucket_sums(target))
    if not buckets:
        return np.zeros(0, KEY)
    observed = checksums.differing_keys(
        checksums.within(source(), buckets),
        checksums.within(target, buckets),
        keyed=True,
        ignored=checksums.ignored_for(left_out),
        at_most=KEYS_AT_MOST,
    )
    if len(observed) > KEYS_AT_MOST:
        raise too_many(str(schema.table), len(observed))
    return keys_of(observed)


def too_many(table: str, keys: int) -> NeedsUserError:
    """The error for a table in which too many rows differ."""
    return NeedsUserError(
        f"{keys:,} rows differ; more than {KEYS_AT_MOST:,} of a table are not repaired one by one",
        code="RPL-1376",
        hint="copy the table again: `replicator table resync NAME TABLE`",
        table=table,
    )
