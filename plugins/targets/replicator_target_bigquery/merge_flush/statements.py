"""Seed 000's statements: the MERGE of a flush in its three forms, and the clean-up behind it.

Two things differ from the seed's text, for the reasons design §6 gives: keys are compared leaf by leaf, NULL equal to NULL
(`T.key = src.key` is NULL when one field is), and each row is stamped with the number of the change that wrote it.
"""
# ruff: noqa: S608 - names pass through `sql.text.name`, values are numbers

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from replicator_target_bigquery.config import SEQUENCE, PartitionType
from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.merge_flush.rows import BATCH_NUMBER, KEY, PARTITION_TIME, VALUE, I
from replicator_target_bigquery.pruning import Pruning
from replicator_target_bigquery.sql.keys import comparable, same_value
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is compared of a key: a field that is no STRUCT, or whether a STRUCT in it is there at all.

    Attributes:
        path: Names from the key column down.
        kind: The field; None for whether the STRUCT at `path` is NULL.
        nullable: Whether it may be NULL, by itself or by a STRUCT around it.
    """

    path: tuple[str, ...]
    kind: Field | None
    nullable: bool

    def of(self, key: str) -> str:
        """The leaf in a statement, of the key column `key`; equal for equal values, and to be grouped by."""
        at = self._at(key)
        return f"{at} IS NULL" if self.kind is None else comparable(at, self.kind)

    def same(self, left: str, right: str) -> str:
        """Whether two keys are equal here."""
        if self.kind is None:
            return f"({self._at(left)} IS NULL) = ({self._at(right)} IS NULL)"
        return same_value(self.kind, self._at(left), self._at(right), nullable=self.nullable)

    def _at(self, key: str) -> str:
        return ".".join([key, *map(name, self.path)])


def leaves(key: Field) -> list[Leaf]:
    """A key column's leaves, STRUCTs in it flattened however deep."""
    return [leaf for inner in key.fields for leaf in _leaves(inner, (), nullable=False)]


def _leaves(inner: Field, path: tuple[str, ...], *, nullable: bool) -> Iterator[Leaf]:
    here, nullable = (*path, inner.name), nullable or inner.mode != "REQUIRED"
    if inner.type != "STRUCT" or inner.mode == "REPEATED":
        yield Leaf(here, inner, nullable)
        return
    if inner.mode != "REQUIRED":
        yield Leaf(here, None, nullable)
    for deeper in inner.fields:
        yield from _leaves(deeper, here, nullable=nullable)


@dataclass(frozen=True, slots=True)
class FlushMerge:
    """What the MERGE of one flush is made of.

    Attributes:
        target: The destination table, quoted.
        intermediate: The intermediate table, quoted.
        batch_number: The flushed batch's.
        key: The destination's key column.
        columns: The destination's columns that come from the value.
        upsert: Whether rows that are there are updated.
        delete: Whether keys without a value are deleted.
        partition: Length of the partitions that rows are put into by their `partitionTime`; None to leave it to BigQuery.
        stamped: Whether the destination has a column for the number of the change.
        pruning: What every row of the destination meets, for tables that insist on a filter.
    """

    target: str
    intermediate: str
    batch_number: int
    key: Field
    columns: tuple[Field, ...]
    upsert: bool
    delete: bool
    partition: PartitionType | None = None
    stamped: bool = True
    pruning: Pruning = field(default_factory=Pruning)

    def statement(self) -> str:
        """The MERGE."""
        return self._upserts() if self.upsert else self._deletes()

    def rows(self) -> str:
        """How many rows of the batch can be read, as a scalar subquery; one that came twice counts once."""
        return f"(SELECT COUNT(DISTINCT x.{I}) FROM {self.intermediate} AS x WHERE {self._of_batch('x')})"

    def _upserts(self) -> str:
        """The last state of each key: updated or inserted, deleted where that is asked for."""
        groups = ", ".join(leaf.of(f"x.{name(KEY)}") for leaf in leaves(self.key))
        updates = ", ".join(f"{name(column)} = {value}" for column, value in self._values("S.src"))
        gone = f"WHEN MATCHED AND S.src.{VALUE} IS NULL\n  THEN DELETE\n" if self.delete else ""
        return (
            f"MERGE {self.target} AS T\n"
            f"USING (\n"
            f"  SELECT ARRAY_AGG(x ORDER BY x.{I} DESC LIMIT 1)[OFFSET(0)] AS src\n"
            f"  FROM {self.intermediate} AS x\n"
            f"  WHERE {self._of_batch('x')}\n"
            f"  GROUP BY {groups}\n"
            f") AS S\n"
            f"ON {self._matches('S.src')}\n"
            f"WHEN MATCHED AND S.src.{VALUE} IS NOT NULL\n  THEN UPDATE SET {updates}\n"
            f"{gone}{self._insert('S.src')}"
        )

    def _deletes(self) -> str:
        """Every row since its key's last delete is inserted; what the destination has of a deleted key goes."""
        groups = ", ".join(leaf.of(f"x.{name(KEY)}") for leaf in leaves(self.key))
        return (
            f"MERGE {self.target} AS T\n"
            f"USING (\n"
            f"  SELECT D.* FROM (\n"
            f"    SELECT x.*, MAX(IF(x.{VALUE} IS NULL, x.{I}, NULL)) OVER (PARTITION BY {groups}) AS last_delete\n"
            f"    FROM {self.intermediate} AS x\n"
            f"    WHERE {self._of_batch('x')}\n"
            f"    QUALIFY ROW_NUMBER() OVER (PARTITION BY x.{I} ORDER BY x.{I}) = 1\n"
            f"  ) AS D\n"
            f"  WHERE D.last_delete IS NULL OR D.{I} >= D.last_delete\n"
            f") AS S\n"
            f"ON {self._matches('S')} AND S.{VALUE} IS NULL\n"
            f"WHEN MATCHED\n  THEN DELETE\n"
            f"{self._insert('S')}"
        )

    def _matches(self, source: str) -> str:
        target, source = f"T.{name(self.key.name)}", f"{source}.{name(KEY)}"
        same = [leaf.same(target, source) for leaf in leaves(self.key)]
        return " AND ".join([*same, *self.pruning.conditions("T")])

    def _insert(self, source: str) -> str:
        pairs = [(self.key.name, f"{source}.{name(KEY)}")]
        if self.partition is not None:
            pairs.append(("_PARTITIONTIME", self._partition(f"{source}.{name(PARTITION_TIME)}")))
        pairs += self._values(source)
        columns = ", ".join(column if column == "_PARTITIONTIME" else name(column) for column, _ in pairs)
        values = ", ".join(value for _, value in pairs)
        return f"WHEN NOT MATCHED AND {source}.{VALUE} IS NOT NULL\n  THEN INSERT ({columns})\n  VALUES ({values})"

    def _partition(self, moment: str) -> str:
        if self.partition is PartitionType.DAY:
            return f"CAST(CAST(DATE({moment}) AS DATE) AS TIMESTAMP)"
        assert self.partition is not None
        return f"TIMESTAMP_TRUNC({moment}, {self.partition.value})"

    def _values(self, source: str) -> list[tuple[str, str]]:
        stamp = [(SEQUENCE, f"DIV({source}.{I}, 2)")] if self.stamped else []
        return [*stamp, *((c.name, f"{source}.{VALUE}.{name(c.name)}") for c in self.columns)]

    def _of_batch(self, alias: str) -> str:
        return f"{alias}.{BATCH_NUMBER} = {self.batch_number}"


def clean(intermediate: str, batch_number: int) -> str:
    """The statement that removes merged batches, but for rows in the streaming buffer: those cannot be deleted."""
    return f"DELETE FROM {intermediate} WHERE {BATCH_NUMBER} <= {batch_number} AND _PARTITIONTIME IS NOT NULL"
