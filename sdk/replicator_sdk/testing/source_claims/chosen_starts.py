"""Claims about first starts at earlier positions of the log (`DeltaSource.starts_from`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from replicator_sdk.errors import ReplicatorError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import DeltaSource, EventReaderDefinition, StartFrom
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_sdk.testing.failures.explained import comparing
from replicator_sdk.testing.histories.history import Step, load_case
from replicator_sdk.testing.recording import Logged, Recording, recording, signature
from replicator_sdk.testing.source_system import Application, SourceClaims, SourceSystem

_LATER = "later"


class ChosenStartClaims(SourceClaims):
    """A pipeline that copies no rows may begin at a position that the log still has."""

    def test_a_first_start_at_an_offset_has_what_came_after_it(self, system: SourceSystem) -> None:
        """A first start at an offset emits what a reader emitted after it, decoded with the columns that the tables had there."""
        self._check(system, "offset")

    def test_a_first_start_at_a_time_has_what_was_committed_later(self, system: SourceSystem) -> None:
        """A first start at a time emits what was committed then or later."""
        self._check(system, "time")

    @pytest.mark.parametrize("kind", ["offset", "time"])
    def test_what_is_no_position_of_the_log_is_refused(self, system: SourceSystem, kind: str) -> None:
        """What is no offset of the source, and a moment that has not come, is refused with a code and a next step."""
        _need(system, kind)
        app = Application(system, load_case("seed_transactions"))
        start = (
            StartFrom("no such position") if kind == "offset" else StartFrom(time=datetime.now(UTC) + timedelta(days=2))
        )
        later = system.later_source("default", _LATER)
        with recording(system.source, app.describe(), None), pytest.raises(ReplicatorError) as refused:
            later.find_start(start, namespace="default", name=_LATER)
        assert refused.value.hint

    def _check(self, system: SourceSystem, kind: str) -> None:
        _need(system, kind)
        app = Application(system, load_case("many_updates_of_one_row"))
        later = system.later_source("default", _LATER)
        with recording(system.source, app.describe(), None) as reader:
            reader.run()
            app.execute(app.history.transactions[0])
            self._alter(app, "before", 2)
            reader.catch_up(self.wait_seconds)
            there, then = reader.marks()[-1], app.describe()
            system.rest()
            start = StartFrom(str(there)) if kind == "offset" else StartFrom(time=_next_second())
            app.execute([Step("insert", "notes", {"rows": [self._row(app, 3)]})])
            reader.catch_up(self.wait_seconds)
            self._alter(app, "after", 4)
            logged = reader.catch_up(self.wait_seconds)
        with self._begun(later, app, start) as (again, found):
            with comparing("the columns that the tables had there and those that the first start says"):
                assert {t: schema.fingerprint for t, schema in found.items()} == {
                    t: schema.fingerprint for t, schema in then.items()
                }
            again.run()
            after = again.catch_up(self.wait_seconds)
        with comparing("what a first start emits and what was emitted after that position"):
            assert [signature(entry) for entry in after] == _after(logged, there)

    def _alter(self, app: Application, column: str, key: int) -> None:
        """Add a column and use it, where the source has ADD COLUMN."""
        if self.supports_add_column:
            app.execute([Step("add_column", "notes", {"name": column, "type": "int64"})])
        app.execute([Step("insert", "notes", {"rows": [self._row(app, key)]})])

    def _row(self, app: Application, key: int) -> dict[str, object]:
        (schema,) = (app.simulator.table(name).schema for name in app.history.tables)
        values: dict[str, object] = {"id": key, "before": key, "after": key}
        return {name: values.get(name, f"t{key}") for name in schema.names}

    @contextmanager
    def _begun(
        self, source: DeltaSource, app: Application, start: StartFrom
    ) -> Iterator[tuple[Recording, Mapping[TableId, TableSchema]]]:
        """A reader that begins at `start`, as the runtime makes it: one that prepares, and one that reads."""
        context = TestSourceContext(_LATER)
        offset = source.find_start(start, namespace=context.namespace, name=_LATER)
        prepares = source.create_reader(EventReaderDefinition({}), context, CollectingEmitter())
        try:
            tables = list(app.describe().values())
            found = prepares.begin_at(offset, tables)
            prepares.capture(tables)
        finally:
            prepares.close()
        with recording(source, found, offset, capture=tables, state=context.state, name=_LATER) as reader:
            yield reader, found


def _next_second() -> datetime:
    """Wait for the next second to begin, and return when it began: some logs have whole seconds only."""
    now = datetime.now(UTC)
    moment = now.replace(microsecond=0) + timedelta(seconds=1)
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(left)
    return moment


def _need(system: SourceSystem, kind: str) -> None:
    if kind not in system.source.starts_from:
        pytest.skip(f"the source finds no position of its log by this ({kind})")


def _after(logged: list[Logged], offset: Offset) -> list[object]:
    return [signature(entry) for entry in logged if offset < entry.offset]
