"""The MERGE of a flush in its three forms, and the clean-up after it.

Two things differ from docs/seeds.md#000-bigquery: keys are compared field by field, NULL equal to NULL
(`T.key = src.key` is NULL when one field is), and each row is stamped with the number of the change that wrote it.
"""
# ruff: noqa: S608 - names pass through `sql.text.name`, values are numbers

from __future__ import annotations

from dataclasses import dataclass, field

from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, PartitionType
from replicator_target_bigquery.merge_flush.intermediate.rows import BATCH_NUMBER, KEY, PARTITION_TIME, VALUE, I
from replicator_target_bigquery.merge_flush.key_fields import key_fields
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.pruning import Pruning
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class FlushMerge:
    """The parts of the MERGE of one flush.

    Attributes:
        target: The destination table, quoted.
        intermediate: The intermediate table, quoted.
        batch_number: The flushed batch's.
        key: The destination's key column.
        columns: The destination's columns that come from the value.
        upsert: Whether existing rows are updated.
        delete: Whether keys without a value are deleted.
        partition: Length of the partitions that rows are put into by their `partitionTime`; None to leave it to BigQuery.
        stamped: Whether the destination has a column for the number of the change.
        pruning: Conditions that every row of the destination meets, for tables that require a filter.
        soft_deletes: Whether rows of deleted keys stay, marked.
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
    soft_deletes: bool = False

    def statement(self) -> str:
        """The MERGE."""
        if self.upsert:
            return self._upserts()
        return self._marks() if self.soft_deletes else self._deletes()

    def rows(self) -> str:
        """How many rows of the batch can be read, as a scalar subquery; one that came twice counts once."""
        return f"(SELECT COUNT(DISTINCT x.{I}) FROM {self.intermediate} AS x WHERE {self._of_batch('x')})"

    def _upserts(self) -> str:
        """The last state of each key: updated or inserted, deleted where the settings say so."""
        updates = _set([*self._stamp(f"S.src.{I}"), *self._values("S.src")])
        deleted = _set(self._stamp(f"S.src.{I}", deleted="TRUE"))
        gone = f"UPDATE SET {deleted}" if self.soft_deletes else "DELETE"
        return (
            f"MERGE {self.target} AS T\n"
            f"USING (\n"
            f"  SELECT ARRAY_AGG(x ORDER BY x.{I} DESC LIMIT 1)[OFFSET(0)] AS src\n"
            f"  FROM {self.intermediate} AS x\n"
            f"  WHERE {self._of_batch('x')}\n"
            f"  GROUP BY {self._groups()}\n"
            f") AS S\n"
            f"ON {self._matches('S.src')}\n"
            f"WHEN MATCHED AND S.src.{VALUE} IS NOT NULL\n  THEN UPDATE SET {updates}\n"
            + (f"WHEN MATCHED AND S.src.{VALUE} IS NULL\n  THEN {gone}\n" if self.delete else "")
            + self._insert("S.src", self._stamp(f"S.src.{I}"))
        )

    def _deletes(self) -> str:
        """Every row since its key's last delete is inserted; the destination's rows of a deleted key are deleted."""
        last = f"MAX(IF(x.{VALUE} IS NULL, x.{I}, NULL)) OVER (PARTITION BY {self._groups()})"
        return self._each(
            f"{last} AS last_delete",
            f"D.last_delete IS NULL OR D.{I} >= D.last_delete",
            "WHEN MATCHED\n  THEN DELETE\n",
            self._stamp(f"S.{I}"),
        )

    def _marks(self) -> str:
        """Every row is inserted, marked by its key's next delete; what the destination has of a key, by the first one.

        So the result does not depend on where flushes are cut.
        """
        deletes = f"MIN(IF(x.{VALUE} IS NULL, x.{I}, NULL)) OVER (PARTITION BY {self._groups()}"
        later = f"ORDER BY x.{I} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
        deleted = _set(self._stamp(f"S.{I}", deleted="TRUE"))
        return self._each(
            f"{deletes}) AS first_delete, {deletes} {later}) AS next_delete",
            f"D.{VALUE} IS NOT NULL OR D.{I} = D.first_delete",
            f"WHEN MATCHED AND T.{name(IS_DELETED)} IS NOT TRUE\n  THEN UPDATE SET {deleted}\n",
            self._stamp(f"IFNULL(S.next_delete, S.{I})", deleted="S.next_delete IS NOT NULL"),
        )

    def _each(self, deletes: str, taken: str, matched: str, stamp: list[tuple[str, str]]) -> str:
        """A MERGE of every row, not of the last state of each key; one that came twice counts once."""
        return (
            f"MERGE {self.target} AS T\n"
            f"USING (\n"
            f"  SELECT D.* FROM (\n"
            f"    SELECT x.*, {deletes}\n"
            f"    FROM {self.intermediate} AS x\n"
            f"    WHERE {self._of_batch('x')}\n"
            f"    QUALIFY ROW_NUMBER() OVER (PARTITION BY x.{I} ORDER BY x.{I}) = 1\n"
            f"  ) AS D\n"
            f"  WHERE {taken}\n"
            f") AS S\n"
            f"ON {self._matches('S')} AND S.{VALUE} IS NULL\n"
            f"{matched}{self._insert('S', stamp)}"
        )

    def _groups(self) -> str:
        return ", ".join(field.of(f"x.{name(KEY)}") for field in key_fields(self.key))

    def _matches(self, source: str) -> str:
        target, source = f"T.{name(self.key.name)}", f"{source}.{name(KEY)}"
        same = [field.same(target, source) for field in key_fields(self.key)]
        return " AND ".join([*same, *self.pruning.conditions("T")])

    def _insert(self, source: str, stamp: list[tuple[str, str]]) -> str:
        pairs = [(self.key.name, f"{source}.{name(KEY)}")]
        if self.partition is not None:
            pairs.append(("_PARTITIONTIME", self._partition(f"{source}.{name(PARTITION_TIME)}")))
        pairs += [*stamp, *self._values(source)]
        columns = ", ".join(column if column == "_PARTITIONTIME" else name(column) for column, _ in pairs)
        values = ", ".join(value for _, value in pairs)
        return f"WHEN NOT MATCHED AND {source}.{VALUE} IS NOT NULL\n  THEN INSERT ({columns})\n  VALUES ({values})"

    def _partition(self, moment: str) -> str:
        if self.partition is PartitionType.DAY:
            return f"CAST(CAST(DATE({moment}) AS DATE) AS TIMESTAMP)"
        assert self.partition is not None
        return f"TIMESTAMP_TRUNC({moment}, {self.partition.value})"

    def _stamp(self, i: str, *, deleted: str = "FALSE") -> list[tuple[str, str]]:
        """The replicator's own columns: the number of the change, and whether it deleted the row."""
        number = [(SEQUENCE, f"DIV({i}, 2)")] if self.stamped else []
        return [*number, (IS_DELETED, deleted)] if self.soft_deletes else number

    def _values(self, source: str) -> list[tuple[str, str]]:
        return [(c.name, f"{source}.{VALUE}.{name(c.name)}") for c in self.columns]

    def _of_batch(self, alias: str) -> str:
        return f"{alias}.{BATCH_NUMBER} = {self.batch_number}"


def _set(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name(column)} = {value}" for column, value in pairs)


def clean(intermediate: str, batch_number: int) -> str:
    """The statement that removes merged batches, but for rows in the streaming buffer: those cannot be deleted."""
    return f"DELETE FROM {intermediate} WHERE {BATCH_NUMBER} <= {batch_number} AND _PARTITIONTIME IS NOT NULL"
