"""Joins what the tasks of a slice did, table by table, for targets that implement `RangeConsumer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar

from replicator_sdk.distributed.partitioned_log import LogSlice
from replicator_sdk.distributed.slices import valid_through
from replicator_sdk.errors import FencedError
from replicator_sdk.schema import TableId, TableSchema

PartT = TypeVar("PartT")


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[PartT]):
    """What a task did; picklable as its parts are.

    Attributes:
        parts: By table; those without changes are left out, and those of which the task has seen another schema.
        seen: Schemas beyond the tables'.
        read_until: By partition index, how late it was read.
    """

    parts: dict[TableId, PartT]
    seen: tuple[TableSchema, ...]
    read_until: dict[int, int]


@dataclass(frozen=True, slots=True)
class JoinedResults(Generic[PartT]):
    """What all tasks of a slice did.

    Attributes:
        parts: By table, those of all tasks in the tasks' order; also of tables of which another task has seen another schema.
        seen: `SliceOutcome.seen`.
        valid_through: `SliceOutcome.valid_through`.
    """

    parts: dict[TableId, list[PartT]]
    seen: tuple[TableSchema, ...]
    valid_through: int

    @classmethod
    def of(cls, piece: LogSlice, results: Sequence[TaskResult[PartT]]) -> JoinedResults[PartT]:
        """The results of all tasks of `piece`."""
        parts: dict[TableId, list[PartT]] = {}
        for result in results:
            for table, part in result.parts.items():
                parts.setdefault(table, []).append(part)
        seen = tuple(dict.fromkeys(schema for result in results for schema in result.seen))
        read_until = {index: time for result in results for index, time in result.read_until.items()}
        return cls(parts, seen, valid_through(piece, read_until))

    @property
    def ready(self) -> list[TableId]:
        """The tables to commit: those with changes of which no other schema was seen."""
        wanting = {schema.table for schema in self.seen}
        return [table for table in self.parts if table not in wanting]


def failures_of(pool: Executor, work: Callable[[TableId], None], tables: Iterable[TableId]) -> dict[TableId, Exception]:
    """Do `work` for several tables at once; what it raised, by table. All have ended on return.

    Raises:
        FencedError: As it was raised for any table.
    """
    outcomes = {table: pool.submit(work, table) for table in tables}
    errors = {table: outcome.exception() for table, outcome in outcomes.items()}
    failures: dict[TableId, Exception] = {}
    for table, error in errors.items():
        if isinstance(error, FencedError) or not isinstance(error, Exception | None):
            raise error
        if error is not None:
            failures[table] = error
    return failures
