"""What all claims about a source share: its database, the application that changes it, and how tables are compared."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import TableSnapshot
from replicator_sdk.source import DeltaSource, EventReaderDefinition
from replicator_sdk.testing.capabilities import Capabilities
from replicator_sdk.testing.failures.explained import assert_same, at_step, comparing
from replicator_sdk.testing.histories.history import History, Step
from replicator_sdk.testing.histories.reference import Change, Reference
from replicator_sdk.testing.histories.values import Row, difference
from replicator_sdk.testing.recording import Recording
from replicator_sdk.testing.simulate import Simulator


class SourceSystem(ABC):
    """A real source with a database that the tests may do as they like in. One for each test.

    Attributes:
        source: The source under test, reading that database.
    """

    source: DeltaSource

    @abstractmethod
    def create_table(self, name: str, schema: TableSchema) -> TableId:
        """Make an empty table with these columns and key; returns its name at the source.

        `name` is the history's name; several histories of one test use different ones.
        """

    @abstractmethod
    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        """Carry out steps in one transaction and commit; each with the schema its table has at that moment."""

    @abstractmethod
    def read_table(self, schema: TableSchema) -> list[Row]:
        """All rows of a table, read by a client that shares no code with the source, in standard types."""

    def rename_tables(self, renames: Mapping[TableId, TableId]) -> None:  # noqa: ARG002 - for those that override it
        """Give tables other names, all at once; they may take each other's. Only for sources with `emits_renames`."""
        pytest.skip("the system cannot rename tables")

    def rest(self) -> None:
        """Change nothing for a while, until a source that emits offsets by itself has emitted one."""
        time.sleep(1.2)

    def later_source(self, namespace: str, name: str) -> DeltaSource:  # noqa: ARG002 - for those that override it
        """The source of a replicator that begins later, and whose log is kept from now on: `source`, where nothing has to be done for that."""
        return self.source

    def lose_history(self) -> None:
        """Make the source forget its log up to now, as a server that needs the disk space would."""
        pytest.skip("the source cannot be made to forget its log")


class Application:
    """What changes the source while it is read; keeps its own idea of what must be there.

    Attributes:
        ids: The history's names of the tables → the source's.
        simulator: What must be there.
        untold: Tables whose last change was an ALTER TABLE.
    """

    def __init__(self, system: SourceSystem, history: History, prefix: str = "") -> None:
        self.history = history
        self.ids = {name: system.create_table(prefix + name, schema) for name, schema in history.tables.items()}
        self.simulator = Simulator(history.schemas(self.ids.__getitem__))
        self.untold: set[TableId] = set()
        self._system = system
        self._committed = 0

    def execute(self, transaction: Iterable[Step]) -> None:
        """Commit one transaction at the source."""
        transaction = tuple(transaction)
        self._committed += 1
        at_step(
            f"transaction {self._committed} of history {self.history.name!r}: {', '.join(map(str, transaction))}"[:500]
        )
        steps = []
        for step in transaction:
            steps.append((step, self.simulator.table(step.table).schema))
            for change in self.simulator.execute(step, _Nowhere()):
                if isinstance(change, DDLEvent) and change.alters:
                    self.untold.add(change.table)
                else:
                    self.untold.discard(table_of(change))
        self._system.execute(steps)

    def execute_all(self, transactions: Iterable[Iterable[Step]]) -> None:
        """Commit transactions one after another."""
        for transaction in transactions:
            self.execute(transaction)

    def describe(self) -> dict[TableId, TableSchema]:
        """The tables as the source describes them now."""
        with self._system.source.create_table_registry() as registry:
            return {table: registry.describe_table(table) for table in self.ids.values()}


class SourceClaims(Capabilities):
    """What the classes of claims share; not to be subclassed by plugins, see `source_suite.SourceConformance`."""

    supports_drop_table: ClassVar[bool] = False
    """The application drops a table and creates it again: the runtime finds out and copies it, so histories of sources leave it out."""

    wait_seconds: ClassVar[float] = 60.0
    """How long the reader may take to emit what is committed."""

    alters_come_with_the_next_change: ClassVar[bool] = False
    """An ALTER TABLE is emitted with the table's next row change, and not before."""

    has_snapshots: ClassVar[bool] = True
    """`create_snapshot_reader` returns a reader."""

    def _need_snapshots(self) -> None:
        if not self.has_snapshots:
            pytest.skip("the source reads no snapshots apart from its log")

    def _open(
        self, system: SourceSystem, schema: TableSchema, reader: Recording, *, narrowed: bool = False
    ) -> TableSnapshot:
        names = frozenset({schema.table}) if narrowed else frozenset()
        definition = EventReaderDefinition({schema.table: schema}, narrowed=names)
        snapshots = system.source.create_snapshot_reader(definition, reader.context)
        assert snapshots is not None
        return snapshots.open(schema)

    def _read(self, snapshot: TableSnapshot) -> _Copy:
        with snapshot:
            rows = [row for chunk in snapshot.chunks for batch in snapshot.read(chunk) for row in batch.to_pylist()]
            return _Copy(rows, snapshot.position, snapshot.end())

    def _compare(self, system: SourceSystem, app: Application, reader: Recording, reference: Reference) -> None:
        """Interpreted events, the source itself, and the application's own idea: all three must be one."""
        described = app.describe()
        untold = app.untold if self.alters_come_with_the_next_change else set()
        for table in set(app.ids.values()) - untold:
            found = reference.tables[table]
            if table in reference.stale and self.has_snapshots:
                found.rows = self._read(self._open(system, found.schema, reader)).rows
            there = system.read_table(found.schema)
            meant = app.simulator.reference.tables[table]
            with comparing(f"the columns of {table} as emitted and as the application made them"):
                assert found.schema.names == meant.schema.names
            with comparing(f"the types and the key of {table} as emitted and as the source describes it"):
                assert _shape(found.schema) == _shape(described[table])
            assert_same(
                f"the rows of {table} at the source and as emitted", difference(found.schema, there, found.rows)
            )
            assert_same(
                f"the rows of {table} as the application made them and at the source",
                difference(found.schema, meant.rows, there),
            )


def _shape(schema: TableSchema) -> tuple[object, ...]:
    return (*((column.name, column.type) for column in schema.columns), schema.primary_key)


@dataclass(frozen=True, slots=True)
class _Copy:
    """What a snapshot held: its rows, its position, and how late they may be."""

    rows: list[Row]
    position: Offset
    end: Offset | None


class _Nowhere(Offset):
    """The offset of DDL events that only the simulator sees."""

    __slots__ = ()

    def fields(self) -> dict[str, bytes]:
        return {}

    @classmethod
    def from_fields(cls, fields: object) -> _Nowhere:  # noqa: ARG003
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Nowhere)

    def __hash__(self) -> int:
        return 0

    def __lt__(self, other: object) -> bool:
        return False

    def __str__(self) -> str:
        return "nowhere"


def table_of(change: Change) -> TableId:
    """The table a change belongs to."""
    return change.table if isinstance(change, DDLEvent) else change.schema.table
