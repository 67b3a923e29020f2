"""The MERGE of a table without a key: it inserts and deletes as many copies of each row as the source did.

A MERGE cannot delete one of two equal rows. So it deletes all copies of a row, and inserts
the remaining ones again by the same statement, which counts them first.
"""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from dataclasses import dataclass, field

from replicator_target_bigquery.config import IS_DELETED, SEQUENCE
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import STAGED_BEFORE
from replicator_target_bigquery.sql.comparison import row_text
from replicator_target_bigquery.sql.pruning import Pruning
from replicator_target_bigquery.sql.text import name


@dataclass(frozen=True, slots=True)
class KeylessMerge:
    """The parts of a batch's MERGE.

    Attributes:
        target: The target table, quoted.
        staged: The batch's staging rows as a parenthesised query.
        columns: The source's columns at the target.
        inserts_only: Whether the batch has inserts only.
        pruning: For tables that require a filter of partitions: one that all rows meet.
        soft_deletes: Whether deleted rows stay, marked.
        unmatched: The table of removals whose rows are not there yet, quoted; empty where there is none.
    """

    target: str
    staged: str
    columns: tuple[Field, ...]
    inserts_only: bool = False
    pruning: Pruning = field(default_factory=Pruning)
    soft_deletes: bool = False
    unmatched: str = ""

    def net_counts(self) -> str:
        """The query of how many copies of each distinct row are added (positive) or removed."""
        rows = ", ".join(name(c.name) for c in self.columns)
        before = ", ".join(f"{name(STAGED_BEFORE + c.name)} AS {name(c.name)}" for c in self.columns)
        picked = ", ".join(f"ANY_VALUE(I.{name(c.name)}) AS {name(c.name)}" for c in self.columns)
        return (
            f"SELECT {row_text('I', self.columns)} AS _row, MAX(I._sequence_num) AS _sequence_num,"
            f" CAST(SUM(I._weight) AS INT64) AS _count, {picked}\n"
            f"    FROM (\n"
            f"      SELECT _sequence_num, 1 AS _weight, {rows} FROM {self.staged} WHERE _operation != 'DELETE'\n"
            f"      UNION ALL\n"
            f"      SELECT _sequence_num, -1, {before} FROM {self.staged} WHERE _operation != 'INSERT'\n"
            f"    ) AS I\n"
            f"    GROUP BY _row HAVING SUM(I._weight) != 0"
        )

    def statement(self) -> str:
        """The MERGE."""
        condition = "FALSE" if self.inserts_only else self._matches()
        source = self._inserted_rows() if self.inserts_only else self._changed_rows()
        stamped = [SEQUENCE, *(c.name for c in self.columns), *([IS_DELETED] if self.soft_deletes else [])]
        gone = "" if self.inserts_only else "WHEN MATCHED THEN DELETE\n"
        taken = "" if self.inserts_only else " AND NOT D._taken"
        return (
            f"MERGE {self.target} AS T\n"
            f"USING (\n  {source}\n) AS D\n"
            f"ON {condition}\n{gone}"
            f"WHEN NOT MATCHED{taken} THEN INSERT ({', '.join(map(name, stamped))})"
            f" VALUES ({', '.join(f'D.{name(c)}' for c in stamped)})"
        )

    def _matches(self) -> str:
        live = [f"T.{name(IS_DELETED)} IS NOT TRUE"] if self.soft_deletes else []
        return " AND ".join(
            ["D._taken", f"{row_text('T', self.columns)} = D._row", *live, *self.pruning.conditions("T")]
        )

    def _inserted_rows(self) -> str:
        rows = ", ".join(name(c.name) for c in self.columns)
        marked = f", FALSE AS {name(IS_DELETED)}" if self.soft_deletes else ""
        if not self.unmatched:
            return f"SELECT _sequence_num, {rows}{marked} FROM {self.staged} WHERE _operation = 'INSERT'"
        copies = "UNNEST(GENERATE_ARRAY(1, N._count - IFNULL(U._copies, 0))) AS _copy"
        return (
            f"SELECT N._sequence_num, {', '.join(f'N.{name(c.name)}' for c in self.columns)}{marked}"
            f" FROM ({self.net_counts()}) AS N LEFT JOIN {self.unmatched} AS U USING (_row), {copies}"
        )

    def _changed_rows(self) -> str:
        """Rows to delete (`_taken`), once each, and copies to insert."""
        rows = ", ".join(f"N.{name(c.name)}" for c in self.columns)
        net = f"SELECT N.*, IFNULL(H._copies, 0) AS _held FROM ({self.net_counts()}) AS N LEFT JOIN ({self._counted()}) AS H USING (_row)"
        inserted = "N._count"
        if self.unmatched:
            net = f"SELECT N.*, IFNULL(U._copies, 0) AS _unmatched FROM ({net}) AS N LEFT JOIN {self.unmatched} AS U USING (_row)"
            inserted = "N._count - N._unmatched"
        # Some copies of a changed row stay; with soft deletes, the others stay as deleted ones.
        copies = f"UNNEST(GENERATE_ARRAY(1, IF(N._count > 0, {inserted}, N._held + N._count))) AS _copy"
        parts = [
            f"SELECT N._sequence_num, N._row, TRUE AS _taken, {rows}{self._mark('FALSE')} FROM Net AS N WHERE N._count < 0",
            f"SELECT N._sequence_num, N._row, FALSE, {rows}{self._mark('FALSE')} FROM Net AS N, {copies}",
        ]
        if self.soft_deletes:
            parts.append(
                f"SELECT N._sequence_num, N._row, FALSE, {rows}{self._mark('TRUE')} FROM Net AS N,"
                f" UNNEST(GENERATE_ARRAY(1, LEAST(N._held, -N._count))) AS _copy"
            )
        joined = "\n  UNION ALL\n  ".join(parts)
        return f"WITH Net AS (\n    {net}\n  )\n  {joined}"

    def _counted(self) -> str:
        """The query of how many copies of each row the target has."""
        live = f" AND T.{name(IS_DELETED)} IS NOT TRUE" if self.soft_deletes else ""
        filters = "".join(f" AND {condition}" for condition in self.pruning.conditions("T"))
        return (
            f"SELECT {row_text('T', self.columns)} AS _row, COUNT(*) AS _copies FROM {self.target} AS T"
            f" WHERE TRUE{live}{filters} GROUP BY _row"
        )

    def store_unmatched(self) -> str:
        """The statement, to be run before the MERGE, that stores removals whose rows are not there."""
        return (
            f"MERGE {self.unmatched} AS T\n"
            f"USING (\n"
            f"  SELECT N._row, -N._count - IFNULL(H._copies, 0) AS _lacking\n"
            f"  FROM ({self.net_counts()}) AS N LEFT JOIN ({self._counted()}) AS H USING (_row)\n"
            f"  WHERE -N._count > IFNULL(H._copies, 0)\n"
            f") AS D\n"
            f"ON T._row = D._row\n"
            f"WHEN MATCHED THEN UPDATE SET _copies = T._copies + D._lacking\n"
            f"WHEN NOT MATCHED THEN INSERT (_row, _copies) VALUES (D._row, D._lacking)"
        )

    def forget_matched(self) -> str:
        """The statement, to be run after the MERGE, that forgets stored removals whose rows came with the batch."""
        return (
            f"MERGE {self.unmatched} AS T\n"
            f"USING (SELECT N._row, N._count FROM ({self.net_counts()}) AS N WHERE N._count > 0) AS D\n"
            f"ON T._row = D._row\n"
            f"WHEN MATCHED AND T._copies <= D._count THEN DELETE\n"
            f"WHEN MATCHED THEN UPDATE SET _copies = T._copies - D._count"
        )

    def _mark(self, deleted: str) -> str:
        return f", {deleted} AS {name(IS_DELETED)}" if self.soft_deletes else ""
