"""The cells of all changes of one table, put in log order, with what the images lack filled from what is known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s
from replicator_source_mysql.binlog.rows.cells import Cells
from replicator_source_mysql.binlog.rows.row_events import DELETE, INSERT, UPDATE, Run


@dataclass(frozen=True, slots=True)
class Column:
    """One column over all changes of one side.

    Attributes:
        start: Where each value begins.
        length: Its bytes.
        present: Whether there is a value that is not NULL.
        absent: Whether the log does not have it, although it has the row; None when it has all.
    """

    start: Int64s
    length: Int64s
    present: Bools
    absent: Bools | None


@dataclass(frozen=True, slots=True)
class _Piece:
    run: Run
    places: Int64s | slice
    before: dict[int, Cells]
    after: dict[int, Cells]


class Changes:
    """The changes of one table in some runs.

    Args:
        runs: Runs of one table and one physical layout.
        first: For each event the rank of its first row.
        after: Ranks of the columns wanted after a change.
        before: Ranks of the columns wanted before a change.

    Attributes:
        ordinals: Rank of each change, ascending.
        op: INSERT, UPDATE or DELETE for each.
    """

    def __init__(self, runs: Sequence[Run], first: Int64s, after: Collection[int], before: Collection[int]) -> None:
        ranks = [run.ordinals(first) for run in runs]
        self.ordinals: Int64s = np.concatenate(ranks)
        op = np.concatenate([np.full(len(rank), run.op, np.int8) for run, rank in zip(runs, ranks, strict=True)])
        places: list[Int64s | slice] = [slice(None)]
        if len(runs) > 1:
            order = np.argsort(self.ordinals, kind="stable")
            self.ordinals, op = self.ordinals[order], op[order]
            inverse = np.empty(len(order), np.int64)
            inverse[order] = np.arange(len(order))
            places = list(np.split(inverse, np.cumsum([len(rank) for rank in ranks])[:-1]))
        self.op = op
        self._pieces = [
            _Piece(run, place, run.cells_before({*before, *_lacking(run, after)}), run.cells_after(after))
            for run, place in zip(runs, places, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.op)

    def is_op(self, op: int) -> Bools:
        """Which changes are of that kind."""
        return np.asarray(self.op == op)

    def after(self, column: int) -> Column:
        """A column after INSERTs and UPDATEs; what an UPDATE's image lacks is taken from the image before."""
        parts = []
        for piece in self._pieces:
            if piece.run.op == DELETE:
                continue
            cells = piece.after.get(column)
            if cells is None and piece.run.op == UPDATE:
                cells = piece.before.get(column)
            parts.append((piece.places, cells))
        return self._column(parts)

    def before(self, column: int) -> Column:
        """A column before UPDATEs and DELETEs."""
        return self._column([(p.places, p.before.get(column)) for p in self._pieces if p.run.op != INSERT])

    def diffs(self, column: int, document: int) -> Bools | None:
        """For which changes the column, the `document`-th of type JSON, holds only what changed; None for none."""
        flags = np.zeros(len(self), np.bool_)
        for piece in self._pieces:
            partial = piece.run.is_diff(document) if column in piece.after else None
            if partial is not None:
                flags[piece.places] = partial
        return flags if flags.any() else None

    def _column(self, parts: Sequence[tuple[Int64s | slice, Cells | None]]) -> Column:
        count = len(self)
        if len(parts) == 1 and isinstance(parts[0][0], slice) and parts[0][1] is not None:
            cells = parts[0][1]
            present = np.ones(count, np.bool_) if cells.present is None else cells.present
            return Column(cells.start, np.ascontiguousarray(cells.length), present, None)
        start, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
        present, absent = np.zeros(count, np.bool_), None
        for places, part in parts:
            if part is None:
                absent = np.zeros(count, np.bool_) if absent is None else absent
                absent[places] = True
                continue
            start[places], length[places] = part.start, part.length
            present[places] = True if part.present is None else part.present
        return Column(start, length, present, absent)


def _lacking(run: Run, wanted: Collection[int]) -> set[int]:
    """Columns an UPDATE's image after lacks, or has only the differences of."""
    if run.op != UPDATE or run.after is None:
        return set()
    shape = run.after[0]
    return set(wanted) - (set() if shape.partial_bytes is not None else set(shape.columns))
