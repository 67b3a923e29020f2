"""Random histories applied batch by batch end as the SDK's reference, with and without kept deleted rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import BatchIdentity
from replicator_sdk.offset import Position
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.simulate import Simulator
from tests.plugins.targets.delta.folder_table import FolderTable


@settings(max_examples=40, deadline=None)
@given(random_history(max_transactions=20, max_steps=5, keyless=False), st.booleans(), st.integers(1, 3))
def test_moves_swaps_chains_and_unsent_columns_end_as_the_reference(
    history: History, soft: bool, together: int
) -> None:
    """`together` transactions make a batch. No key has two rows, whether live or kept as deleted."""
    simulator = Simulator(history.tables)
    schema = history.tables["keyed"]
    with TemporaryDirectory() as folder:
        table = FolderTable(Path(folder), schema, soft_deletes=soft)
        sequence = 0
        for first in range(0, len(history.transactions), together):
            steps = [step for steps in history.transactions[first : first + together] for step in steps]
            changes = [c for step in steps for c in simulator.execute(step, MemoryOffset(first))]
            rows = [c for c in changes if isinstance(c, RowChange)]
            batch = to_batch(rows, range(len(rows)), sequence)
            identity = BatchIdentity(1, 1, sequence + 1, sequence + len(rows), Position(MemoryOffset(first)))
            table.apply(to_table_changes([batch], identity))
            sequence += len(rows)
            found = table.rows()
            assert len({row["id"] for row in found}) == len(found)
            live = [{n: row[n] for n in schema.names} for row in found if not row.get("_is_deleted")]
            assert not difference(schema, live, simulator.table("keyed").rows)
