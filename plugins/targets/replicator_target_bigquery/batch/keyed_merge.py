"""The MERGE of a table with a key: that of docs/seeds.md#001-replicator, corrected for keys that move.

The seed's diff query keeps the last change per *key before*, so `0→1→2` in one batch leaves a row with key 1. Here each change
is one or two records at a point in time: at the even time `2 n` an UPDATE that moves a row takes it away from its old
key, at the odd time `2 n + 1` the change writes its row, or deletes it. The last record at a key decides.
"""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from dataclasses import dataclass, field

from replicator_target_bigquery.config import IS_DELETED, SEQUENCE
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import LOG_PARTITION, STAGED_BEFORE
from replicator_target_bigquery.sql.comparison import KeyColumn, comparable, same_key
from replicator_target_bigquery.sql.pruning import Pruning
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class KeyedMerge:
    """The parts of a batch's MERGE.

    Attributes:
        target: The target table, quoted.
        staged: The condition-filtered staging rows as a parenthesised query.
        columns: The source's columns at the target.
        keys: The key among them.
        pruning: Conditions that every key of the batch meets, so that BigQuery reads less of the target.
        unresolved: Column → its place, from 1, in `_unchanged`, for the columns that some row lacks.
        soft_deletes: Whether deleted rows stay.
        key_column: A column that holds the key as a STRUCT; empty for none.
    """

    target: str
    staged: str
    columns: tuple[Field, ...]
    keys: tuple[KeyColumn, ...]
    pruning: Pruning = field(default_factory=Pruning)
    unresolved: tuple[tuple[str, int], ...] = ()
    soft_deletes: bool = False
    key_column: str = ""

    def net_changes(self) -> str:
        """The query of the net change per key: its row, and whether it exists afterwards (`_written`)."""
        rows = ", ".join(f"S.{name(c.name)}" for c in self.columns)
        keys = {key.name for key in self.keys}
        moved = ", ".join(f"S.{name((STAGED_BEFORE if c.name in keys else '') + c.name)}" for c in self.columns)
        rest = f"S._unchanged, {', '.join(f'S.{name(STAGED_BEFORE + key.name)}' for key in self.keys)}"
        stays = same_key(self.keys, "S", "S", STAGED_BEFORE)
        return (
            f"SELECT * FROM (\n"
            f"    SELECT S._sequence_num, 2 * S._sequence_num + 1 AS _time, S._operation != 'DELETE' AS _written, {rows}, {rest}\n"
            f"    FROM {self.staged} AS S\n"
            f"    UNION ALL\n"
            f"    SELECT S._sequence_num, 2 * S._sequence_num, FALSE, {moved}, {rest}\n"
            f"    FROM {self.staged} AS S\n"
            f"    WHERE S._operation = 'UPDATE' AND S._unchanged IS NULL AND NOT ({stays})\n"
            f"  ) AS R\n"
            f"  WHERE TRUE\n"  # BigQuery takes QUALIFY only beside WHERE, GROUP BY or HAVING
            f"  QUALIFY ROW_NUMBER() OVER (PARTITION BY {self._grouping('R')} ORDER BY R._time DESC) = 1"
        )

    def source(self) -> str:
        """What is merged: the net changes, with the values that only the target has."""
        if not self.unresolved:
            return self.net_changes()
        places = dict(self.unresolved)
        values = ", ".join(
            f"IF(SUBSTR(N._unchanged, {places[c.name]}, 1) = '1', O.{name(c.name)}, N.{name(c.name)}) AS {name(c.name)}"
            if c.name in places
            else f"N.{name(c.name)}"
            for c in self.columns
        )
        return (
            f"SELECT N._sequence_num, N._written, {values}\n"
            f"  FROM ({self.net_changes()}) AS N\n"
            f"  LEFT JOIN {self.target} AS O ON {self._origin('N')}"
        )

    def lost(self) -> str:
        """How many rows need a value of a row that the target does not have, as a scalar subquery."""
        return (
            f"(SELECT COUNT(*) FROM {self.staged} AS S LEFT JOIN {self.target} AS O ON {self._origin('S')}\n"
            f"    WHERE STRPOS(S._unchanged, '1') > 0 AND O.{name(SEQUENCE)} IS NULL)"
        )

    def split(self) -> str:
        """How many keys have changes in several partitions of a slice, as a scalar subquery."""
        after = ", ".join(f"S.{name(key.name)}" for key in self.keys)
        before = ", ".join(f"S.{name(STAGED_BEFORE + key.name)}" for key in self.keys)
        partition = f"S.{name(LOG_PARTITION)}"
        return (
            f"(SELECT COUNT(*) FROM (\n"
            f"    SELECT MAX(K.{name(LOG_PARTITION)}) AS _last FROM (\n"
            f"      SELECT {partition}, {after} FROM {self.staged} AS S\n"
            f"      UNION ALL\n"
            f"      SELECT {partition}, {before} FROM {self.staged} AS S WHERE S._operation = 'UPDATE'\n"
            f"    ) AS K\n"
            f"    GROUP BY {self._grouping('K')}\n"
            f"    HAVING MIN(K.{name(LOG_PARTITION)}) != MAX(K.{name(LOG_PARTITION)})\n"
            f"  ) AS P)"
        )

    def statement(self) -> str:
        """The MERGE."""
        condition = " AND ".join((same_key(self.keys, "T", "D"), *self.pruning.conditions("T")))
        stamped = (SEQUENCE, *(c.name for c in self.columns))
        own = [(IS_DELETED, "FALSE")] if self.soft_deletes else []
        if self.key_column:
            own.append(
                (self.key_column, f"STRUCT({', '.join(f'D.{name(k.name)} AS {name(k.name)}' for k in self.keys)})")
            )
        updates = [*(f"{name(c)} = D.{name(c)}" for c in stamped), *(f"{name(c)} = {value}" for c, value in own)]
        columns = ", ".join([*map(name, stamped), *(name(c) for c, _ in own)])
        values = ", ".join([*(f"D.{name(c)}" for c in stamped), *(value for _, value in own)])
        gone = (
            f"UPDATE SET {name(SEQUENCE)} = D.{name(SEQUENCE)}, {name(IS_DELETED)} = TRUE"
            if self.soft_deletes
            else "DELETE"
        )
        return (
            f"MERGE {self.target} AS T\n"
            f"USING (\n  {self.source()}\n) AS D\n"
            f"ON {condition}\n"
            f"WHEN MATCHED AND NOT D._written THEN {gone}\n"
            f"WHEN MATCHED THEN UPDATE SET {', '.join(updates)}\n"
            f"WHEN NOT MATCHED AND D._written THEN INSERT ({columns}) VALUES ({values})"
        )

    def clear(self) -> str:
        """Delete all rows of the keys that are written; the MERGE then inserts one of each."""
        condition = " AND ".join((same_key(self.keys, "T", "S"), "S._operation != 'DELETE'"))
        found = [f"EXISTS (SELECT 1 FROM {self.staged} AS S WHERE {condition})", *self.pruning.conditions("T")]
        return f"DELETE FROM {self.target} AS T\nWHERE {' AND '.join(found)}"

    def _origin(self, alias: str) -> str:
        """How a row that lacks values finds the row the target holds since before the batch."""
        live = [f"O.{name(IS_DELETED)} IS NOT TRUE"] if self.soft_deletes else []
        pruned = self.pruning.conditions("O")
        lacks = f"STRPOS({alias}._unchanged, '1') > 0"
        return " AND ".join([same_key(self.keys, "O", alias, STAGED_BEFORE), lacks, *live, *pruned])

    def _grouping(self, alias: str) -> str:
        return ", ".join(comparable(f"{alias}.{name(key.name)}", key.field) for key in self.keys)
