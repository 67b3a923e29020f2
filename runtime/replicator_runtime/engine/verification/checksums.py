"""Checksums of rows and of tables as Spark computes them, independent of the rows' order; no row reaches the driver.

Two hashes of 64 bits with different seeds name a row, and two more its key. A hash of Spark's leaves NULL out, so that (NULL, 1) would
equal (1, NULL), and so do arrays: beside each value goes whether it is NULL. Values that compare as equal (0.0 and -0.0, all NaN)
have one hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from replicator_runtime.engine.verification.verdict import OBSERVED
from replicator_sdk.datatype import Array, Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from replicator_runtime.engine.verification.verdict import Observed
    from replicator_sdk import TableSchema
    from replicator_sdk.datatype import DataType

BUCKETS: Final = 4096
_SEEDS: Final = (0x5EED_0001, 0x5EED_0002)
_HALF: Final = 0xFFFF_FFFF
_FOLLOWS_FROM: Final = {"INSERT": "missing", "DELETE": "surplus", "TRUNCATE_TABLE": "surplus"}
_KEY: Final = ("k1", "k2")
KEY_HASHES: Final = _KEY
"""The names of the columns that hold the two hashes of a row's key."""
_ROW: Final = ("r1", "r2")


@dataclass(frozen=True, slots=True)
class Sums:
    """The checksums of a table.

    Attributes:
        rows: How many rows it has.
        buckets: By the number of a bucket, a part of the keys: how many rows it has, and the sums of their hashes.
    """

    rows: int
    buckets: dict[int, tuple[int, ...]]

    @classmethod
    def of_parts(cls, parts: Sequence[Sums]) -> Sums:
        """The checksums of a table that was read in parts."""
        if len(parts) == 1:
            return parts[0]
        buckets: dict[int, tuple[int, ...]] = {}
        for part in parts:
            for bucket, sums in part.buckets.items():
                known = buckets.get(bucket)
                buckets[bucket] = sums if known is None else tuple(map(add, known, sums))
        return cls(sum(part.rows for part in parts), buckets)

    def rows_in(self, bucket: int) -> int:
        """How many rows a bucket has."""
        return self.buckets.get(bucket, (0,))[0]

    def differing(self, other: Sums) -> list[int]:
        """The buckets in which two tables differ."""
        return sorted(
            bucket
            for bucket in self.buckets.keys() | other.buckets.keys()
            if self.buckets.get(bucket) != other.buckets.get(bucket)
        )


def hashed(rows: DataFrame, schema: TableSchema) -> DataFrame:
    """The hashes of each row: k1 and k2 of its key, r1 and r2 of all its columns, and its version (NULL without one).

    Args:
        rows: The schema's columns in order, and perhaps a version after them.
        schema: The table's schema; where it has no key, the whole row is the key.
    """
    from pyspark.sql import functions as sql

    named = _named(rows, schema)
    version = sql.col("version") if "version" in named.columns else sql.lit(None)
    whole = [part for name in schema.names for part in _parts_of(name, schema)]
    row = (_hash(seed, whole).alias(name) for name, seed in zip(_ROW, _SEEDS, strict=True))
    return named.select(*_key_hashes(schema), *row, version.cast("long").alias("v"))


def _named(rows: DataFrame, schema: TableSchema) -> DataFrame:
    """The rows with columns c0, c1, ... since a source's names may be anything."""
    count = len(schema.columns)
    return rows.toDF(*(f"c{i}" for i in range(count)), *(["version"] if len(rows.columns) > count else []))


def _key_hashes(schema: TableSchema) -> list[Column]:
    key = [part for name in schema.primary_key or schema.names for part in _parts_of(name, schema)]
    return [_hash(seed, key).alias(name) for name, seed in zip(_KEY, _SEEDS, strict=True)]


def _parts_of(name: str, schema: TableSchema) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql

    return _parts(sql.col(f"c{schema.names.index(name)}"), schema[name].type)


def _hash(seed: int, parts: Sequence[Column]) -> Column:
    from pyspark.sql import functions as sql

    return sql.xxhash64(sql.lit(seed), *parts)


def _parts(value: Column, kind: DataType) -> tuple[Column, Column]:
    """What is hashed of a value: whether it is NULL, and itself."""
    return value.isNull(), _hashable(value, kind)


def _hashable(value: Column, kind: DataType) -> Column:
    """A value whose hash differs where the value does, also in NULLs inside of it."""
    from pyspark.sql import functions as sql

    if isinstance(kind, Array):
        element = kind.element
        items = sql.transform(value, lambda item: sql.struct(*_parts(item, element)))
        return sql.when(value.isNotNull(), sql.struct(sql.size(value), items))
    if isinstance(kind, Record):
        parts = [part for name, inner in kind.fields for part in _parts(value.getField(name), inner)]
        return sql.when(value.isNotNull(), sql.struct(sql.lit(1), *parts))
    return value


def bucket_sums(rows: DataFrame) -> Sums:
    """The checksums of `hashed` rows; reads them once."""
    from pyspark.sql import functions as sql

    # Halves, since a sum of whole hashes would leave the 64 bits.
    halves = [half for name in _ROW for half in (sql.shiftright(name, 32), sql.col(name).bitwiseAND(_HALF))]
    found = rows.groupBy(_bucket().alias("bucket")).agg(sql.count("*"), *(sql.sum(half) for half in halves)).collect()
    buckets = {int(row[0]): tuple(int(value) for value in row[1:]) for row in found}
    return Sums(sum(bucket[0] for bucket in buckets.values()), buckets)


def rows_of(found: Sums | DataFrame) -> int | None:
    """How many rows were read for checksums; None for hashed rows, which may be a choice of them."""
    return found.rows if isinstance(found, Sums) else None


def _bucket() -> Column:
    from pyspark.sql import functions as sql

    return sql.pmod(sql.col("k1"), sql.lit(BUCKETS))


def within(rows: DataFrame, buckets: Collection[int]) -> DataFrame:
    """Those of `hashed` rows that are in these buckets."""
    return rows if len(buckets) >= BUCKETS else rows.where(_bucket().isin(list(buckets)))


def among(rows: DataFrame, keys: Any, spark: SparkSession) -> DataFrame:
    """Those of `hashed` rows that have one of these keys, an array of `KEY`."""
    wanted = spark.createDataFrame(pa.table({name: pa.array(keys[name]) for name in _KEY}))
    return rows.join(wanted, list(_KEY), "left_semi")


def values_of(
    rows: DataFrame, schema: TableSchema, places: Sequence[int], keys: Any, spark: SparkSession
) -> Iterator[tuple[tuple[int, int], tuple[Any, ...]]]:
    """Key hash and some columns, by their places, of rows that have one of these keys, each key once."""
    columns = [f"c{place}" for place in places]
    found = among(_named(rows, schema).select(*_key_hashes(schema), *columns), keys, spark)
    for row in found.dropDuplicates(list(_KEY)).collect():
        yield (int(row[0]), int(row[1])), tuple(row[2:])


def rows_among(
    rows: DataFrame, schema: TableSchema, keys: Any, spark: SparkSession, names: Sequence[str] = ()
) -> DataFrame:
    """The rows that have one of these keys, an array of `KEY`: the hashes of the key, then columns, called by their places.

    Args:
        rows: As for `hashed`.
        schema: The table's schema.
        keys: Which rows.
        spark: The session.
        names: Which columns; all, in order, when empty.
    """
    columns = [f"c{schema.names.index(name)}" for name in names or schema.names]
    return among(_named(rows, schema).select(*_key_hashes(schema), *columns), keys, spark)


def ignored_for(left_out: Collection[str]) -> frozenset[str]:
    """Which of `missing`, `surplus` and `different` do not count where a pipeline leaves these operations out of a table."""
    return frozenset(_FOLLOWS_FROM[name] for name in left_out if name in _FOLLOWS_FROM)


def differing_keys(
    source: DataFrame, target: DataFrame, *, keyed: bool, ignored: Collection[str] = (), at_most: int
) -> Observed:
    """The keys in which `hashed` rows of both sides differ, as bags.

    Args:
        source: The source's.
        target: The target's, of the same part of the table.
        keyed: Whether the table has a key.
        ignored: Which of `missing`, `surplus` and `different` do not count.
        at_most: One more key than this is returned at most.
    """
    from pyspark.sql import functions as sql

    sides = source.select("*", sql.lit(1).alias("s"), sql.lit(0).alias("t")).unionAll(
        target.select("*", sql.lit(0).alias("s"), sql.lit(1).alias("t"))
    )
    rows = sides.groupBy(*_KEY, *_ROW).agg(
        sql.sum("s").alias("s"),
        sql.sum("t").alias("t"),
        sql.count("v").alias("versions"),
        sql.bit_xor("v").alias("v"),
    )
    state = sql.xxhash64(*_ROW, "s", "t", sql.coalesce("v", sql.lit(0)))
    lacking, extra = (sql.greatest(sql.col(a) - sql.col(b), sql.lit(0)) for a, b in (("s", "t"), ("t", "s")))
    keys = (
        rows.where("s <> t")
        .groupBy(*_KEY)
        .agg(
            sql.sum(lacking).alias("lacking"),
            sql.sum(extra).alias("extra"),
            sql.bit_xor(state).alias("state"),
            (sql.lit(keyed) & (sql.sum("t") > 0) & (sql.sum("t") == sql.sum("versions"))).alias("versioned"),
        )
    )
    both = sql.least("lacking", "extra") if keyed else sql.lit(0)
    counted = {"missing": sql.col("lacking") - both, "surplus": sql.col("extra") - both, "different": both}
    counts = {name: sql.lit(0) if name in ignored else count for name, count in counted.items()}
    found = keys.select(
        *_KEY, *(count.cast("long").alias(name) for name, count in counts.items()), "state", "versioned"
    )
    return _observed(found.where(reduce(or_, (sql.col(name) > 0 for name in counts))).limit(at_most + 1).toArrow())


def _observed(found: pa.Table) -> Observed:
    observed = np.zeros(found.num_rows, OBSERVED)
    for name in OBSERVED.names or ():
        observed[name] = found.column(name).to_numpy()
    return observed
