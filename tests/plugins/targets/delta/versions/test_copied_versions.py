"""The mode `scd2`: versions that a copy has read and that changes end, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.testing.histories.batches import to_table_changes
from replicator_sdk.testing.histories.reference import RowChange
from tests.plugins.targets.changes import KEYED, delete, insert, row, update
from tests.plugins.targets.delta.folder_table import FolderTable
from tests.plugins.targets.version_model import instant, timed


@pytest.fixture
def table(tmp_path: Path) -> FolderTable:
    return FolderTable(tmp_path, KEYED, mode="scd2")


def spans(table: FolderTable) -> list[tuple[Any, ...]]:
    """Of all versions: key, name, from when and to when they are valid."""
    names = ("id", "name", "_valid_from", "_valid_to")
    found = sorted(table.rows(), key=lambda one: (one["id"], one["_sequence_num"]))
    return [tuple(one[name] for name in names) for one in found]


def test_a_change_after_a_copy_keeps_its_commit_time_where_the_copy_was_long_or_the_clock_of_the_source_is_late(
    table: FolderTable,
) -> None:
    """The row was read when the copy's moment was long past, and its change came after that moment: the log does not overlap the copy."""
    table.copy([row(key, "copied") for key in range(1, 6)], 1000)
    several = [update(row(1, "b")), update(row(1, "c")), delete(row(2)), update(row(6, "m"), before=row(3))]
    table.apply(timed(1, [*several, update(row(4, "late"))], 500, 700, 600, 600, 2000))
    assert spans(table) == [
        (1, "copied", instant(500), instant(500)),
        (1, "b", instant(500), instant(700)),
        (1, "c", instant(700), None),
        (2, "copied", instant(600), instant(600)),
        (3, "copied", instant(600), instant(600)),
        (4, "copied", instant(1000), instant(2000)),
        (4, "late", instant(2000), None),
        (5, "copied", instant(1000), None),
        (6, "m", instant(600), None),
    ]


def test_a_change_that_a_copied_row_may_have_already_is_valid_from_the_copy_on(table: FolderTable) -> None:
    table.copy([row(1, "copied")], 1000)
    table.apply(timed(1, [update(row(1, "b"))], 500, overlap=True))
    assert spans(table) == [(1, "copied", instant(1000), instant(1000)), (1, "b", instant(1000), None)]


def test_a_version_that_a_change_has_opened_begins_no_earlier_when_the_clock_is_set_back(table: FolderTable) -> None:
    table.apply(timed(1, [insert(row(1, "a"))], 1000))
    table.apply(timed(2, [update(row(1, "b"))], 500))
    assert spans(table) == [(1, "a", instant(1000), instant(1000)), (1, "b", instant(1000), None)]


def test_a_delete_of_no_row_is_counted_also_where_its_record_lacks_values(table: FolderTable) -> None:
    """As records of topics do that have the row before, with a mark in place of a large value."""
    table.apply(timed(1, [insert(row(1, "a", "n"))], 1000))
    made = timed(2, [update({"id": 1, "name": "b"}), delete(row(9))], 2000, 2000)
    (only,) = made.batches()
    marked = replace(only, unchanged={"note": pa.array([True, True])})
    identity = made.identity
    table.apply(to_table_changes([marked], identity, overlap=False))
    assert [(one["id"], one["name"], one["note"]) for one in table.rows() if one["_is_current"]] == [(1, "b", "n")]
    with pytest.raises(DataError):
        table.apply(timed(3, [update({"id": 9, "name": "b"})], 3000))


def test_a_row_that_is_read_again_by_a_clock_that_is_late_begins_when_the_version_before_it_did(
    table: FolderTable,
) -> None:
    """Else a query for a moment would find two versions."""
    table.apply(timed(1, [insert(row(1, "a")), insert(row(2, "a")), update(row(1, "b"))], 1000, 1000, 2000))
    table.copy_again([[row(1, "c"), row(2, "a"), row(3, "a")]], 1500, 1600)
    assert spans(table) == [
        (1, "a", instant(1000), instant(2000)),
        (1, "b", instant(2000), instant(2000)),
        (1, "c", instant(2000), None),
        (2, "a", instant(1000), None),
        (3, "a", instant(1600), None),
    ]
    table.repair(timed(2, [insert(row(1, "d"))], -1, overlap=True), 1700)
    assert spans(table)[2:4] == [(1, "c", instant(2000), instant(2000)), (1, "d", instant(2000), None)]


NAMES = st.sampled_from(["a", "b", None])
STEP = st.tuples(st.sampled_from(["write", "partly", "delete", "move"]), st.integers(0, 3), st.integers(0, 3), NAMES)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=14), st.data())
def test_a_resumed_copy_and_the_log_over_it_leave_one_current_version_of_each_row(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int, str | None]], data: st.DataObject
) -> None:
    """Some keys are read early, others late; then the log is applied from the early moment on, in batches cut anywhere."""
    log, states = _history(steps)
    early = data.draw(st.integers(0, len(log)))
    late = data.draw(st.integers(early, len(log)))
    read_late = data.draw(st.sets(st.integers(0, 3)))
    cuts = sorted({late, len(log), *data.draw(st.lists(st.integers(early, len(log)), max_size=3))} - {early})
    table = FolderTable(tmp_path_factory.mktemp("resumed"), KEYED, mode="scd2")
    for moment, keys in ((early, {0, 1, 2, 3} - read_late), (late, read_late)):
        if rows := [states[moment][key] for key in sorted(keys & states[moment].keys())]:
            table.copy(rows, 10 * moment)
    first = early
    for number, cut in enumerate(cuts, 1):
        part, times = log[first:cut], [10 * place + 5 for place in range(first, cut)]
        table.apply(timed(number, part, *times, overlap=first < late))
        first = cut
    found = table.rows()
    current = {one["id"]: {name: one[name] for name in KEYED.names} for one in found if one["_is_current"]}
    assert current == states[-1]
    assert sum(one["_is_current"] for one in found) == len(current)
    for key in range(4):
        ordered = sorted((one for one in found if one["id"] == key), key=lambda one: one["_sequence_num"])
        for version, after in pairwise(ordered):
            assert version["_end_sequence_num"] is not None
            assert version["_end_sequence_num"] <= after["_sequence_num"]
        assert all(one["_valid_to"] is None or one["_valid_from"] <= one["_valid_to"] for one in ordered)


def _history(steps: Sequence[tuple[str, int, int, str | None]]) -> tuple[list[RowChange], list[dict[int, Any]]]:
    """A log that steps make, one change a transaction, and the table before and after each."""
    log: list[RowChange] = []
    states: list[dict[int, Any]] = [{}]
    for what, key, other, name in steps:
        now = dict(states[-1])
        if key not in now:
            now[key] = row(key, name, str(len(log)))
            log.append(insert(now[key]))
        elif what == "delete":
            log.append(delete({"id": now.pop(key)["id"]}))
        elif what == "move" and other not in now:
            now[other] = now.pop(key) | {"id": other}
            log.append(update(now[other], before={"id": key}))
        elif what == "partly":
            now[key] = now[key] | {"name": name}
            log.append(update({"id": key, "name": name}))
        else:
            now[key] = row(key, name, str(len(log)))
            log.append(update(now[key]))
        states.append(now)
    assert all(change.operation in set(DMLOperation) for change in log)
    return log, states
