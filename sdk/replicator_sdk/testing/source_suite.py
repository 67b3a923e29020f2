"""The source's half of the kit: subclass `SourceConformance`, give the fixture `system`, run pytest.

class TestMySource(SourceConformance):
    supports_truncate = False

    @pytest.fixture
    def system(self, tmp_path):
        return MySystem(tmp_path)
"""

from __future__ import annotations

import pickle
import threading
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_sdk.testing.contexts import CollectingConfigurer, CollectingEmitter, TestSourceContext
from replicator_sdk.testing.ddl_positions import DDLPositions
from replicator_sdk.testing.failures.explained import assert_same, at_step, comparing
from replicator_sdk.testing.failures.smallest import check_history
from replicator_sdk.testing.histories.history import History, Step, load_case, load_cases
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.histories.values import Row, difference
from replicator_sdk.testing.recording import Logged, Recording, interpret, recording, schemas_at, signature
from replicator_sdk.testing.source_claims.chosen_starts import ChosenStartClaims
from replicator_sdk.testing.source_claims.health import HealthClaims
from replicator_sdk.testing.source_claims.numbering import NumberingClaims
from replicator_sdk.testing.source_claims.renames import SourceRenameClaims
from replicator_sdk.testing.source_system import Application, SourceSystem, table_of

__all__ = ["Application", "Row", "SourceConformance", "SourceSystem", "Step"]

CASES = load_cases()


class SourceConformance(DDLPositions, NumberingClaims, SourceRenameClaims, ChosenStartClaims, HealthClaims):
    """What every source promises. Each test's docstring is the promise."""

    random_histories: ClassVar[int] = 15
    """How many random histories are tried."""

    @pytest.fixture
    def system(self) -> SourceSystem:
        """The source under test; override it."""
        raise NotImplementedError("a subclass of SourceConformance must define the fixture `system`")

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_what_the_reader_emits_is_what_happened(self, system: SourceSystem, case: History) -> None:
        """Interpreted event by event, what is emitted makes the tables that are at the source."""
        self.require(case)
        check_history(case, lambda history, prefix: self._check_emitted(system, history, prefix))

    def _check_emitted(self, system: SourceSystem, case: History, prefix: str) -> None:
        app = Application(system, case, prefix)
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            reader.run()
            for transaction in case.transactions:
                app.execute(transaction)
            logged = reader.catch_up(self.wait_seconds)
        self._compare(system, app, reader, interpret(schemas, logged))

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_every_emitted_offset_resumes(self, system: SourceSystem, case: History) -> None:
        """A reader started after any commit emits exactly what came after it, in the same order."""
        self.require(case)
        app = Application(system, case)
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            reader.run()
            for transaction in case.transactions:
                app.execute(transaction)
                reader.catch_up(self.wait_seconds)
            logged = reader.catch_up(self.wait_seconds)
        for offset in _offsets(reader, logged):
            after = [signature(entry) for entry in logged if offset < entry.offset]
            then = schemas_at(schemas, logged, offset)
            with recording(system.source, then, offset, state=reader.context.state) as again:
                assert again.start == offset
                again.run()
                at_step(f"read again from {offset}")
                with comparing("what is emitted again and what was emitted after that offset"):
                    assert [signature(entry) for entry in again.catch_up(self.wait_seconds)] == after

    def test_random_histories_arrive(self, system: SourceSystem) -> None:
        """Whatever an application does to its rows and columns, interpreted it makes the tables at the source."""
        count = iter(range(1_000_000))

        @settings(
            max_examples=self.random_histories, deadline=None, suppress_health_check=list(HealthCheck), database=None
        )
        @given(self._any_history(), st.booleans())
        def check(history: History, settle: bool) -> None:
            app = Application(system, history, prefix=f"r{next(count)}_")
            schemas = app.describe()
            with recording(system.source, schemas, None) as reader:
                reader.run()
                for transaction in history.transactions:
                    app.execute(transaction)
                    if settle:
                        reader.catch_up(self.wait_seconds)
                logged = reader.catch_up(self.wait_seconds)
            self._compare(system, app, reader, interpret(schemas, logged))

        check()

    def test_snapshot_and_log_fit_together(self, system: SourceSystem) -> None:
        """A snapshot taken while the application writes, and the log after its position, make the table exactly."""
        self._need_snapshots()
        app = Application(system, _busy_history(keyless=self.supports_keyless))
        schemas = app.describe()
        transactions = iter(app.history.transactions)
        with recording(system.source, schemas, None) as reader:
            for _ in range(20):
                app.execute(next(transactions))
            writer = threading.Thread(target=app.execute_all, args=(transactions,))
            writer.start()
            try:
                taken = {table: self._read(self._open(system, schema, reader)) for table, schema in schemas.items()}
            finally:
                writer.join()
            reader.run()
            logged = reader.catch_up(self.wait_seconds)
        reference = interpret(schemas, [])
        for table, copy in taken.items():
            reference.tables[table].rows.extend(copy.rows)
            for entry in logged:
                if table_of(entry.change) == table and copy.position < entry.offset:
                    reference.apply(entry.change, overlap=copy.end is not None and not copy.end < entry.offset)
        self._compare(system, app, reader, reference)

    def test_chunks_together_are_the_table(self, system: SourceSystem) -> None:
        """All chunks together are the table, in standard types, and reading one twice, elsewhere, gives the same."""
        self._need_snapshots()
        app = Application(system, _large_history())
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            app.execute(app.history.transactions[0])
            (schema,) = schemas.values()
            with self._open(system, schema, reader) as snapshot:
                assert [chunk.index for chunk in snapshot.chunks] == list(range(len(snapshot.chunks)))
                read = pickle.loads(pickle.dumps(snapshot.read))  # noqa: S301 - made in this line
                rows: list[Row] = []
                for chunk in snapshot.chunks:
                    batches = list(read(chunk))
                    assert all(batch.schema == snapshot.schema.arrow for batch in batches)
                    part = [row for batch in batches for row in batch.to_pylist()]
                    again = [row for batch in snapshot.read(chunk) for row in batch.to_pylist()]
                    assert not difference(snapshot.schema, part, again)
                    rows += part
            assert not difference(schema, system.read_table(schema), rows)

    def test_a_snapshot_has_the_columns_of_its_position(self, system: SourceSystem) -> None:
        """A table altered after it was described is copied with the columns it has then: its log starts after that."""
        self._need_snapshots()
        if not self.supports_add_column:
            pytest.skip("the source has no ADD COLUMN")
        app = Application(system, load_case("many_updates_of_one_row"))
        with recording(system.source, described := app.describe(), None) as reader:
            app.execute(app.history.transactions[0])
            app.execute([Step("add_column", "notes", {"name": "more", "type": "int64"})])
            app.execute([Step("insert", "notes", {"rows": [{"id": 2, "title": "t2", "more": 5}]})])
            ((table, schema),) = described.items()
            with self._open(system, schema, reader) as snapshot:
                copied = snapshot.schema
                batches = [batch for chunk in snapshot.chunks for batch in snapshot.read(chunk)]
        now = app.describe()[table]
        assert copied.names == now.names
        assert not difference(now, system.read_table(now), [row for batch in batches for row in batch.to_pylist()])

    @pytest.mark.parametrize("case", [c for c in CASES if c.name.startswith(("types_", "tricky", "empty"))], ids=str)
    def test_snapshot_and_log_agree_on_values(self, system: SourceSystem, case: History) -> None:
        """A value looks the same whether it comes by snapshot or by log."""
        self._need_snapshots()
        self.require(case)
        app = Application(system, case)
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            for transaction in case.transactions:
                app.execute(transaction)
            rows = {table: self._read(self._open(system, schema, reader)).rows for table, schema in schemas.items()}
            reader.run()
            reference = interpret(schemas, reader.catch_up(self.wait_seconds))
        for table, schema in schemas.items():
            compared = f"the rows of {table} by log and by snapshot"
            assert_same(compared, difference(schema, reference.tables[table].rows, rows[table]))

    def test_the_latest_offset_is_reached_without_further_change(self, system: SourceSystem) -> None:
        """The reader reaches `latest_offset` by itself, on an idle source and after a change."""
        app = Application(system, load_case("seed_transactions"))
        with recording(system.source, app.describe(), None) as reader:
            reader.run()
            reader.catch_up(self.wait_seconds)
            app.execute(app.history.transactions[0])
            reader.catch_up(self.wait_seconds)

    def test_changes_of_tables_not_asked_for_are_not_emitted(self, system: SourceSystem) -> None:
        """Only the tables of the definition are emitted; the offset passes over the others."""
        app, other = (Application(system, load_case("seed_transactions"), prefix) for prefix in ("", "other_"))
        schemas = app.describe()
        with recording(system.source, schemas, None, capture=[*schemas.values(), *other.describe().values()]) as reader:
            reader.run()
            other.execute(other.history.transactions[0])
            app.execute(app.history.transactions[0])
            other.execute(other.history.transactions[1])
            logged = reader.catch_up(self.wait_seconds)
        with comparing("the tables whose changes are emitted and those that were asked for"):
            assert {table_of(entry.change) for entry in logged} == set(schemas)
        reference = interpret(schemas, logged)
        self._compare(system, app, reader, reference)

    def test_only_selected_columns_are_emitted(self, system: SourceSystem) -> None:
        """Of a table narrowed to some columns no other is read, by log or snapshot, nor one that is added later."""
        app = Application(system, load_case("many_updates_of_one_row"))
        schemas = {table: schema.select(["title"]) for table, schema in app.describe().items()}
        with recording(system.source, schemas, None, narrowed=True) as reader:
            reader.run()
            for transaction in app.history.transactions:
                app.execute(transaction)
            if self.supports_add_column:
                app.execute([Step("add_column", "notes", {"name": "more", "type": "int64"})])
                app.execute([Step("insert", "notes", {"rows": [{"id": 2, "title": "t2", "more": 5}]})])
            logged = reader.catch_up(self.wait_seconds)
        reference = interpret(schemas, logged)
        for table, schema in schemas.items():
            assert reference.tables[table].schema.names == schema.names
            assert not difference(schema, system.read_table(schema), reference.tables[table].rows)
            if self.has_snapshots:
                rows = self._read(self._open(system, schema, reader, narrowed=True)).rows
                assert not difference(schema, system.read_table(schema), rows)
                assert all(set(row) == set(schema.names) for row in rows)

    def test_a_table_can_join_later(self, system: SourceSystem) -> None:
        """`capture` between two runs brings a table in; capturing what is captured already changes nothing."""
        first, second = (Application(system, load_case("seed_transactions"), prefix) for prefix in ("", "second_"))
        with recording(system.source, first.describe(), None) as reader:
            reader.run()
            first.execute(first.history.transactions[0])
            logged = reader.catch_up(self.wait_seconds)
        position = reader.emitter.last_offset
        schemas = {**first.describe(), **second.describe()}
        with recording(system.source, schemas, position, state=reader.context.state) as again:
            second.execute(second.history.transactions[0])
            first.execute(first.history.transactions[1])
            again.run()
            logged += again.catch_up(self.wait_seconds)
        reference = interpret(schemas, logged)
        self._compare(system, first, again, reference)
        self._compare(system, second, again, reference)

    def test_offsets_survive_their_stored_form(self, system: SourceSystem) -> None:
        """An offset read back from its fields is equal, hashes alike, and keeps its order."""
        app = Application(system, load_case("seed_with_primary_key"))
        with recording(system.source, app.describe(), None) as reader:
            reader.run()
            for transaction in app.history.transactions:
                app.execute(transaction)
                reader.catch_up(self.wait_seconds)
            offsets = _offsets(reader, reader.logged())
        again = [type(offset).from_fields(dict(offset.fields())) for offset in offsets]
        assert again == offsets
        assert [hash(offset) for offset in again] == [hash(offset) for offset in offsets]
        assert sorted(set(again)) == offsets
        assert len(set(offsets)) == len(offsets) > 1
        assert isinstance(offsets[0], system.source.offset_type)
        assert all(str(offset) for offset in offsets)

    def test_lost_history_is_an_error(self, system: SourceSystem) -> None:
        """A reader whose log is gone raises an error and does not start elsewhere."""
        app = Application(system, load_case("seed_with_primary_key"))
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            reader.run()
            app.execute(app.history.transactions[0])
            reader.catch_up(self.wait_seconds)
        app.execute(app.history.transactions[1])
        system.lose_history()
        with (
            pytest.raises(HistoryLostError) as caught,
            recording(system.source, schemas, reader.start, state=reader.context.state),
        ):
            pass
        assert caught.value.code
        assert caught.value.hint

    def test_close_ends_a_reader(self, system: SourceSystem) -> None:
        """`close` ends `run` soon; it may be called before `run`, and twice."""
        app = Application(system, load_case("seed_transactions"))
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            reader.run()
            reader.catch_up(self.wait_seconds)
            reader.close(seconds=10)
            reader.close()
        context, emitter = TestSourceContext(), CollectingEmitter()
        unused = system.source.create_reader(EventReaderDefinition(schemas), context, emitter)
        unused.close()
        unused.close()

    def test_identity_lasts(self, system: SourceSystem) -> None:
        """The identity is the same for every instance, before and after replication begins."""
        before = system.source.identity()
        app = Application(system, load_case("seed_transactions"))
        with recording(system.source, app.describe(), None):
            pass
        assert type(system.source)(system.source.config).identity() == before != ""

    def test_tables_are_listed_and_described(self, system: SourceSystem) -> None:
        """The registry lists the tables, describes their columns, and refuses a table that is not there."""
        app = Application(system, load_case("several_tables_in_one_transaction"))
        with system.source.create_table_registry() as registry:
            listed = [summary.table for summary in registry.list_tables()]
            assert set(app.ids.values()) <= set(listed)
            assert listed == sorted(listed, key=str) or listed == sorted(listed)
            schema = registry.describe_table(app.ids["lines"])
            assert schema.primary_key == ("order_id", "line")
            assert schema.names == ("order_id", "line", "what")
            assert all(column.source_type for column in schema.columns)
            with pytest.raises(NeedsUserError):
                registry.describe_table(TableId(schema.table.database, "no such table", schema.table.schema))

    def test_a_healthy_source_is_assessed_as_such(self, system: SourceSystem) -> None:
        """The assessor finds no error in the source the tests run on, and says how every column arrives."""
        app = Application(system, load_case("seed_transactions"))
        system.source.configure(CollectingConfigurer())
        with system.source.create_table_assessor() as assessor:
            assert [f for f in assessor.assess().findings if f.severity is Severity.ERROR] == []
            for schema in app.describe().values():
                found = assessor.assess_table(schema)
                assert [c.name for c in found.columns] == list(schema.names)
                assert [f for f in found.findings if f.severity is Severity.ERROR] == []

    def _any_history(self) -> st.SearchStrategy[History]:
        return random_history(
            keyless=self.supports_keyless, ddl=self.supports_add_column, unchanged=self.supports_unchanged
        )


def _offsets(reader: Recording, logged: list[Logged]) -> list[Offset]:
    """The start and every commit that changes ended with, in order."""
    return [reader.start, *sorted({entry.offset for entry in logged})]


def _busy_history(*, keyless: bool) -> History:
    """A hundred small transactions that keep changing the same few rows, keys included."""
    tables = dict(load_case("seed_with_primary_key").tables)
    if keyless:
        tables["words"] = load_case("keyless_one_of_equal_rows").tables["words"]
    transactions = []
    for i in range(100):
        steps = [Step("insert", "customers", {"rows": [{"id": i, "name": f"n{i}"}]})]
        if i > 4:
            steps.append(Step("update", "customers", {"where": {"id": i - 3}, "set": {"id": 1000 + i}}))
            steps.append(Step("delete", "customers", {"where": {"id": 1000 + i - 1}}))
        if keyless:
            steps.append(Step("insert", "words", {"rows": [{"word": f"w{i % 3}"}] * 2}))
            steps.append(Step("update", "words", {"where": {"word": f"w{i % 5}"}, "set": {"word": f"w{(i + 1) % 3}"}}))
        if keyless and i % 10 == 9:
            steps.append(Step("delete", "words", {"where": {"word": "w1"}}))
        transactions.append(tuple(steps))
    return History("busy", "", frozenset(), tables, tuple(transactions))


def _large_history() -> History:
    rows = [{"id": i * 7 - 500, "name": None if i % 11 == 0 else f"n{i}"} for i in range(1000)]
    step = Step("insert", "customers", {"rows": rows})
    return History("large", "", frozenset(), load_case("seed_with_primary_key").tables, ((step,),))
