"""Claims about who writes: runs of other epochs, other replicators, and what a commit says of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replicator_sdk.batch import TableChanges
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import BatchConsumer, EventConsumer, SnapshotLoader, TableProgress
from replicator_sdk.testing.contexts import CollectingConfigurer
from replicator_sdk.testing.failures.explained import assert_same, at_step, comparing
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer, target_context
from replicator_sdk.testing.target_script import apply, cut_transactions


class WriterClaims(TargetClaims):
    """Only the newest run of one replicator writes a table, and its progress is in the commit."""

    def test_a_lower_epoch_is_fenced(self, system: TargetSystem) -> None:
        """A writer of a lower epoch changes nothing any more and learns so."""
        self._need_batches(system)
        self._need_fence()
        case = load_case("seed_transactions")
        newer, older = self._builder(system, case, epoch=2), self._builder(system, case, epoch=1)
        with consumer(system, epoch=2) as winner:
            self._create(winner, newer)
            flush = newer.flush(case.transactions[:1])
            apply(winner, flush)
        with consumer(system, epoch=1) as zombie:
            with pytest.raises(FencedError):
                apply(zombie, older.flush(case.transactions))
            self._compare(system, flush.tables)
            (schema,) = older.schemas
            if isinstance(zombie, SnapshotLoader):
                with pytest.raises(FencedError):
                    zombie.begin_snapshot(schema, "zombie", Position(MemoryOffset(9)))
            self._compare(system, flush.tables)

    def test_a_table_of_another_replicator_is_refused(self, system: TargetSystem) -> None:
        """A replicator neither takes the progress of another one's table for its own nor changes the table."""
        self._need_batches(system)
        if not self.refuses_foreign_tables:
            pytest.skip("the target does not store which replicator writes a table")
        case = load_case("seed_transactions")
        own, foreign = self._builder(system, case), self._builder(system, case, epoch=2)
        with consumer(system) as owner:
            self._create(owner, own)
            flush = own.flush(case.transactions[:1])
            apply(owner, flush)
        (schema,) = own.schemas
        with consumer(system, epoch=2, name="another") as other:
            assert isinstance(other, BatchConsumer)
            with pytest.raises(NeedsUserError):
                other.progress(schema.table)
            with pytest.raises(NeedsUserError):
                apply(other, foreign.flush(case.transactions))
            if isinstance(other, SnapshotLoader):
                with pytest.raises(NeedsUserError):
                    other.begin_snapshot(schema, "another", Position(MemoryOffset(9)))
        self._compare(system, flush.tables)

    def test_a_table_that_no_replicator_wrote_is_refused(self, system: TargetSystem) -> None:
        """A table that another program made is neither taken for a new one nor changed: each call raises NeedsUserError.

        The error names the table, since without that the run would end for all.
        """
        self._need_batches(system)
        case = load_case("seed_transactions")
        builder = self._builder(system, case)
        (schema,) = builder.schemas
        system.create_foreign_table(schema)
        empty = {schema.table: ReferenceTable(schema)}
        batches = [item for item in builder.flush(case.transactions).items if isinstance(item, TableChanges)]
        with consumer(system) as one, comparing("the error for a table that no replicator wrote and NeedsUserError"):
            assert isinstance(one, BatchConsumer)
            calls: dict[str, Callable[[], object]] = {
                "progress": lambda: one.progress(schema.table),
                "apply_ddl": lambda: self._create(one, builder),
                "apply_batch": lambda: one.apply_batch(batches[0]),
            }
            if isinstance(one, SnapshotLoader):
                loader = one
                calls["begin_snapshot"] = lambda: loader.begin_snapshot(schema, "plan", Position(MemoryOffset(9)))
            for name, call in calls.items():
                at_step(name)
                with pytest.raises(NeedsUserError) as refused:
                    call()
                named, wanted = refused.value.table, str(schema.table)
                assert_same(
                    "the table that the error names", "" if named == wanted else f"it names {named!r}, not {wanted!r}"
                )
                self._compare(system, empty)

    def test_a_deleted_table_is_gone_and_others_tables_stay(self, system: TargetSystem) -> None:
        """`delete_table`, where the target has it, deletes this replicator's table, once or twice, but none of a newer run or another's."""
        self._need_batches(system)
        case = load_case("seed_transactions")
        builder = self._builder(system, case, epoch=2)
        (schema,) = builder.schemas
        with consumer(system, epoch=2) as owner:
            if type(owner).delete_table is EventConsumer.delete_table:
                pytest.skip("the target deletes no tables")
            self._create(owner, builder)
            flush = builder.flush(case.transactions[:1])
            apply(owner, flush)
        if self.is_fenced:
            with consumer(system, epoch=1) as zombie, pytest.raises(FencedError):
                zombie.delete_table(schema.table)
            self._compare(system, flush.tables)
        if self.refuses_foreign_tables:
            with consumer(system, epoch=3, name="another") as other, comparing("why the table stays"):
                assert other.delete_table(schema.table)
            self._compare(system, flush.tables)
        for _ in range(2):
            with consumer(system, epoch=3) as owner:
                assert isinstance(owner, BatchConsumer)
                assert not owner.delete_table(schema.table)
                assert owner.progress(schema.table) is None
        with consumer(system, epoch=4) as later:
            rebuilt = self._builder(system, case, epoch=4)
            self._create(later, rebuilt)
            flush = rebuilt.flush(case.transactions[:1])
            apply(later, flush)
        self._compare(system, flush.tables)

    def test_progress_is_kept_with_the_data(self, system: TargetSystem) -> None:
        """What a table's last commit says of itself is read back by another consumer, exactly."""
        self._need_batches(system)
        case = load_case("several_tables_in_one_transaction")
        builder = self._builder(system, case)
        with consumer(system) as writer:
            assert isinstance(writer, BatchConsumer)
            assert writer.progress(TableId("conformance", "never written")) is None
            self._create(writer, builder)
            for group in cut_transactions(case, "one by one"):
                flush = builder.flush(group)
                apply(writer, flush)
                with consumer(system) as reader:
                    assert isinstance(reader, BatchConsumer)
                    for item in flush.items:
                        assert isinstance(item, TableChanges)
                        with comparing(f"the progress of {item.table} and the batch applied last"):
                            assert reader.progress(item.table) == TableProgress.of(item.identity)

    def test_a_healthy_target_is_assessed_as_such(self, system: TargetSystem) -> None:
        """The assessor finds no error in the target the tests run on, and says how every column arrives."""
        system.target.configure(CollectingConfigurer())
        schema = load_case("seed_transactions").schemas(system.table_id)["customers"]
        with system.target.create_table_assessor() as assessor:
            assert [f for f in assessor.assess().findings if f.severity is Severity.ERROR] == []
            assert [f for f in assessor.assess_table(schema).findings if f.severity is Severity.ERROR] == []

    def test_stop_may_come_twice(self, system: TargetSystem) -> None:
        """A consumer may be stopped before anything happened, and again."""
        unused = system.target.create_consumer(target_context(system, 1))
        unused.start()
        unused.stop()
        unused.stop()
