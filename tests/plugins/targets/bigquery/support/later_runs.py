"""Three runs of one table after a kill, with changes of rows and structure between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from replicator_sdk.datatype import INT64
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.schema import Column, TableSchema, replace_columns
from replicator_sdk.testing.histories.reference import RowChange
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.consumer import BigQueryConsumer
from tests.crash.three_runs import ThreeRuns
from tests.plugins.targets.bigquery.support.changes import alter, batch, ddl, delete, insert, update
from tests.plugins.targets.bigquery.support.project import Project

Step: TypeAlias = Callable[[BigQueryConsumer, int], None]
"""A batch or a change of structure, applied by the run of an epoch."""
Live: TypeAlias = Callable[[BigQueryConfig, int, Sequence[Step]], None]
"""Brings a table to its end by a run of an epoch, from wherever the table is, with further steps after its own ones."""
_FIRST_POSITION = 100


@dataclass
class LaterRuns:
    """A table after a kill; `source` and `copy` of three runs at once. Each run replays all changes since the snapshot.

    Attributes:
        project: The dataset.
        live: The life in which the table was killed.
        schema: The table's schema at the end of that life.
        rows: Its rows then, as the REST interface writes them, without the columns of `schema` that are NULL in all of them.
        structures: Which changes of structure come between the runs.
        appends: Whether the target holds every row that was ever written.
        left: Finds what a run must remove and did not; empty when there is nothing.
        epoch: Of the run that was killed last.
    """

    project: Project
    live: Live
    schema: TableSchema
    rows: list[dict[str, Any]]
    structures: Sequence[str] = ("add", "rename")
    appends: bool = False
    left: Callable[[], Sequence[object]] = tuple
    epoch: int = 1
    _later: list[Step] = field(default_factory=list)
    _structures: int = 0

    def check(self) -> None:
        """Make the three runs.

        Raises:
            AssertionError: When source and target differ after one of them.
        """
        ThreeRuns(self, [self]).check()

    def change_rows(self) -> None:
        """Two rows come, one of them changes, and its key where it has one, and the oldest row goes."""
        one, two = self._new(1), self._new(2)
        changed = {**one, "name": "changed", **({"id": one["id"] + 1000} if self.schema.primary_key else {})}
        changes = [insert(one, self.schema), insert(two, self.schema), update(changed, self.schema, one)]
        if self.rows:
            changes.append(delete(self._whole(self.rows[0]), self.schema))
        self.rows = [*self.rows, one, changed, two] if self.appends else [*self.rows[1:], changed, two]
        self._apply(changes)

    def change_structure(self) -> None:
        """The next one of `structures`."""
        kind = self.structures[self._structures % len(self.structures)]
        self._structures += 1
        if kind == "truncate":
            self.rows = []
            self._change(ddl(self._position(), DDLOperation.TRUNCATE_TABLE, self.schema))
            return
        *others, last = self.schema.columns
        column = Column(f"{kind}_{self._structures}", INT64)
        if kind == "add":
            self.schema = replace_columns(self.schema, (*others, last, column))
            step = Alter(AlterKind.ADD_COLUMN, column)
        else:
            self.schema = replace_columns(self.schema, (*others, column))
            self.rows = [{column.name if n == last.name else n: v for n, v in row.items()} for row in self.rows]
            step = Alter(AlterKind.RENAME_COLUMN, column, previous=last)
        self._change(alter(self._position(), self.schema, step))

    def run_until_current(self) -> None:
        """A run of the next epoch."""
        self.epoch += 1
        self.live(self.project.config, self.epoch, self._later)

    def differences(self) -> str:
        """How the rows that must be there and the rows of the target differ, and what a run did not remove."""
        names = self.schema.names
        listed = ", ".join(names)
        wanted = Counter(tuple(map(_text, self._whole(row).values())) for row in self.rows)
        found = Counter(map(tuple, self.project.select(f"SELECT {listed} FROM {{d}}.{self.schema.table.table}")))
        rows = f"missing {[*(wanted - found)]}, surplus {[*(found - wanted)]}" if wanted != found else ""
        return rows + (f"not removed {left}" if (left := self.left()) else "")

    def _new(self, rank: int) -> dict[str, Any]:
        """A row that was not there before."""
        number = 10 * self._position() + rank
        return {c.name: number if c.type == INT64 else f"{c.name} {number}" for c in self.schema.columns}

    def _whole(self, row: dict[str, Any]) -> dict[str, Any]:
        values = ((c, row.get(c.name)) for c in self.schema.columns)
        return {c.name: int(v) if v is not None and c.type == INT64 else v for c, v in values}

    def _position(self) -> int:
        return _FIRST_POSITION + len(self._later)

    def _apply(self, changes: Sequence[RowChange]) -> None:
        position = self._position()
        self._later.append(lambda consumer, epoch: consumer.apply_batch(batch(position, changes, epoch=epoch)))

    def _change(self, event: DDLEvent) -> None:
        self._later.append(lambda consumer, epoch: consumer.apply_ddl(event))


def named(names: Sequence[str], rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows of the REST interface, each value by its column's name."""
    return [dict(zip(names, row, strict=True)) for row in rows]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
