"""Random histories become the versions that a model in plain Python has, however they are cut, numbered, timed and compacted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import BatchIdentity
from replicator_sdk.offset import Position
from replicator_sdk.row_versions.opening import rising
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.simulate import Simulator
from replicator_target_delta.apply.pruning import candidate_files
from replicator_target_delta.versions.version_columns import end_column
from tests.plugins.targets.changes import KEYED, batch, insert, row, update
from tests.plugins.targets.delta.folder_table import FolderTable
from tests.plugins.targets.version_model import VersionsModel, assert_in_order, counted


@settings(max_examples=20, deadline=None)
@given(
    random_history(max_transactions=12, max_steps=5, keyless=False),
    st.integers(1, 3),
    st.lists(st.integers(0, 40), min_size=12, max_size=12),
    st.lists(st.integers(0, 5), min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_a_table_has_the_versions_of_the_model(
    history: History, together: int, numbers: Sequence[int], times: Sequence[int], compacted: Sequence[bool]
) -> None:
    """`together` transactions are a batch; batch n is numbered from `numbers[n]`, which may be lower than before, as the times may be."""
    simulator, model = Simulator(history.tables), VersionsModel()
    schema, opened = history.tables["keyed"], 0
    with TemporaryDirectory() as folder:
        table = FolderTable(Path(folder), schema, mode="scd2", metadataColumns=[])
        for first in range(0, len(history.transactions), together):
            batches, known = [], []
            low = numbers[first // together]
            added, count = max(0, table.highest + 1 - (low + 1)), 0
            for number in range(first, min(first + together, len(history.transactions))):
                changes = [
                    c for step in history.transactions[number] for c in simulator.execute(step, MemoryOffset(number))
                ]
                rows = [c for c in changes if isinstance(c, RowChange)]
                if not rows:
                    continue
                batches.append(to_batch(rows, range(len(rows)), low + count, times[number]))
                known += [(row, low + count + place + 1 + added, times[number]) for place, row in enumerate(rows)]
                count += len(rows)
            if not batches:
                continue
            identity = BatchIdentity(1, 1, low + 1, low + count, Position(MemoryOffset(first)))
            table.apply(to_table_changes(batches, identity))
            model.apply(known)
            opened += sum(bool(row.row) for row, _, _ in known)
            if compacted[first // together]:
                table.compact(1 << 20, 4)
            found = table.rows()
            assert counted(found) == counted([version.columns() for version in model.versions])
            assert len(found) == opened
            assert not simulator.table("keyed").rows or {row["id"] for row in found if row["_is_current"]}
            assert_kinds_apart(table)
        assert_lives(table.rows())


def assert_kinds_apart(table: FolderTable) -> None:
    """No file has both current and ended versions, also after compaction."""
    end = end_column(table.state)
    assert end is not None
    for part in table.state.files.parts:
        bounds = part.segment.bounds(end)
        assert bounds is not None
        assert not (bounds.nulls & (bounds.low <= bounds.high)[:, 0])[part.live_rows].any()


def assert_lives(rows: Sequence[dict[str, object]]) -> None:
    """As `assert_in_order`, by numbers alone: a key that is used again may have an earlier time, where the clock was set back."""
    for one in rows:
        one["_valid_from"] = one["_sequence_num"]
        one["_valid_to"] = one["_end_sequence_num"]
    assert_in_order(list(rows))


def test_times_of_a_chain_never_fall() -> None:
    times, chain = np.array([5, 3, 9, 1, 2, 0]), np.array([0, 0, 0, 1, 1, 2])
    assert rising(times, chain).tolist() == [5, 5, 9, 1, 2, 0]


def test_a_current_version_is_looked_for_in_no_file_of_ended_ones(tmp_path: Path) -> None:
    table = FolderTable(tmp_path, KEYED, mode="scd2")
    table.apply(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    for position in range(2, 12):
        table.apply(batch(position, [update(row(1, str(position))), update(row(2, str(position)))]))
    end, key = end_column(table.state), table.state.layout["id"].arrow
    keys = pa.table([pa.array([1, 2, 3], key.type)], schema=pa.schema([key]))
    assert len(table.state.files) == 11
    assert len(candidate_files(table.state.files, keys)) == 11
    assert len(candidate_files(table.state.files, keys, end)) == 1
