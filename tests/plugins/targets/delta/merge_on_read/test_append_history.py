"""Random histories that are appended change by change are read as the SDK's reference, however they are cut and numbered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import BatchIdentity
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import Row, difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.simulate import Simulator
from tests.plugins.targets.delta.folder_table import FolderTable
from tests.plugins.targets.latest import latest


@settings(max_examples=40, deadline=None)
@given(
    random_history(max_transactions=20, max_steps=5, keyless=False),
    st.integers(1, 3),
    st.lists(st.integers(0, 40), min_size=20, max_size=20),
    st.sampled_from([(), ("_source_timestamp",), ("_sequence_num",)]),
    st.sampled_from([None, "gone"]),
)
def test_the_latest_rows_are_those_of_the_reference(
    history: History, together: int, numbers: Sequence[int], watermarks: tuple[str, ...], tombstone: str | None
) -> None:
    """`together` transactions make a batch; batch n is numbered from `numbers[n]`, which may be lower than before."""
    simulator = Simulator(history.tables)
    schema, changed = history.tables["keyed"], 0
    with TemporaryDirectory() as folder:
        keys = {"watermarkKeys": watermarks, "tombstoneStringKeyValue": tombstone}
        table = FolderTable(Path(folder), schema, mode="merge-on-read", **keys)
        for first in range(0, len(history.transactions), together):
            steps = [step for steps in history.transactions[first : first + together] for step in steps]
            changes = [c for step in steps for c in simulator.execute(step, MemoryOffset(first))]
            rows = [c for c in changes if isinstance(c, RowChange)]
            low = numbers[first // together]
            identity = BatchIdentity(1, 1, low + 1, low + len(rows), Position(MemoryOffset(first)))
            table.apply(to_table_changes([to_batch(rows, range(len(rows)), low)], identity))
            changed += len(rows)
            found = table.arrow()
            assert found.num_rows >= changed
            assert not difference(schema, seen(table, schema), simulator.table("keyed").rows)


@settings(max_examples=20, deadline=None)
@given(
    random_history(max_transactions=12, max_steps=5, keyless=False),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
    st.sampled_from([(), ("_source_timestamp",)]),
)
def test_folding_never_changes_what_readers_see_and_leaves_nothing_but_that(
    history: History, when: Sequence[int], watermarks: tuple[str, ...]
) -> None:
    """Some files are folded after each transaction, all of them at the end: then each key that is there has one row, and no other has any."""
    simulator = Simulator(history.tables)
    schema = history.tables["keyed"]
    with TemporaryDirectory() as folder:
        table = FolderTable(Path(folder), schema, mode="merge-on-read", watermarkKeys=watermarks)
        for number, steps in enumerate(history.transactions):
            changes = [c for step in steps for c in simulator.execute(step, MemoryOffset(number))]
            rows = [c for c in changes if isinstance(c, RowChange)]
            low = table.highest
            identity = BatchIdentity(1, 1, low + 1, low + len(rows), Position(MemoryOffset(number)))
            table.apply(to_table_changes([to_batch(rows, range(len(rows)), low)], identity))
            table.fold(when[number])
            assert not difference(schema, seen(table, schema), simulator.table("keyed").rows)
        table.fold(0)
        assert not difference(schema, seen(table, schema), simulator.table("keyed").rows)
        if not watermarks:
            assert table.arrow().num_rows == len(simulator.table("keyed").rows)


def seen(table: FolderTable, schema: TableSchema) -> list[Row]:
    """What readers see."""
    found = table.arrow()
    every = found.to_pylist()
    return [{name: every[place][name] for name in schema.names} for place in latest(found, table.properties)]
