"""A lane gives back what was put into it, in order and once, whichever runs wrote it and wherever one was cut off."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.lanes import lane as lane_module
from replicator_runtime.engine.lanes.lane import Lane
from replicator_sdk import Alter, AlterKind, BatchIdentity, Column, DDLEvent, DDLOperation, Position, TableChanges
from replicator_sdk.datatype import BINARY, DATE, INT64, STRING
from replicator_sdk.datatype import Decimal as DecimalType
from replicator_sdk.errors import FencedError, SnapshotNeededError
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.log_model import Place, batch, table, values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_state import LaneFolder

T = table("t")
NAME = "0a"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LaneFolder]:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("r")
    yield directory.lanes(lease)
    lease.release()


def opened(folder: LaneFolder, base: int) -> Lane:
    return Lane(folder, NAME, Place.from_fields, Position(Place(base)), folder.names())


def write(lane: Lane, first: int, last: int, **more: Any) -> None:
    """Put INSERTs of the numbers after `first` up to `last` into a lane, one transaction each."""
    numbers = list(range(first + 1, last + 1))
    batches = [batch(T, [n], [n]) for n in numbers]
    identity = BatchIdentity(1, 1, numbers[0], numbers[-1], Position(Place(last)))
    found = TableChanges(T, identity, batches, rows=len(numbers), nbytes=8, inserts_only=True, **more)
    lane.write(found, (len(numbers), 0, 0))


def drained(lane: Lane, rows: int = 1000) -> list[Any]:
    """What the steps of the lane are: lists of numbers, or events."""
    found: list[Any] = []
    while step := lane.next_step(1, 5, rows, 1 << 30):
        assert step.changes is None or step.changes.identity.epoch == 5
        found.append(step.event if step.changes is None else values(step.changes))
        lane.take(step)
    return found


def test_entries_are_given_together_up_to_a_limit_and_apart_where_they_differ(folder: LaneFolder) -> None:
    lane = opened(folder, 0)
    for first in range(4):
        write(lane, first, first + 1)
    write(lane, 4, 5, overlap=True)
    assert (lane.rows, lane.end) == (5, Position(Place(5)))
    again = opened(folder, 0)
    assert (again.rows, again.nbytes, again.end) == (5, lane.nbytes, lane.end)
    assert drained(lane, rows=3) == [[1, 2, 3], [4], [5]]
    assert drained(again) == [[1, 2, 3, 4], [5]]
    assert drained(opened(folder, 3)) == [[4], [5]]


def test_what_is_in_a_lane_is_counted_without_looking_at_all_of_it(folder: LaneFolder) -> None:
    """A week of a change a second is 600,000 entries, and the counts are asked for with each."""
    lane = opened(folder, 0)
    for first in range(5):
        write(lane, first, first + 1)
    while step := lane.next_step(1, 5, 2, 1 << 30):
        lane.take(step)
        again = opened(folder, lane.end.offset.number - lane.rows)  # type: ignore[attr-defined]
        assert (lane.rows, lane.nbytes) == (again.rows, again.nbytes)
    assert (lane.rows, lane.nbytes) == (0, 0)


def test_large_changes_are_several_files_which_count_once_the_entry_exists(
    folder: LaneFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "_PART_BYTES", 1)
    lane = opened(folder, 0)
    write(lane, 0, 6)
    [entry] = [name for name in folder.names() if name.endswith(".entry")]
    assert len(folder.names()) == 6
    assert drained(opened(folder, 0)) == [[1, 2, 3, 4, 5, 6]]
    folder.remove([entry])
    assert opened(folder, 0).end == Position(Place(0))


@pytest.mark.parametrize("seed", range(20))
def test_entries_of_superseded_runs_that_come_at_any_time_change_nothing(folder: LaneFolder, seed: int) -> None:
    """Two runs write the same log, cut at random; each begins where it found the lane's end, the older one goes on late."""
    chance = random.Random(seed)
    runs = [opened(folder, 0), opened(folder, 0)]
    durable = 0
    for _ in range(12):
        if chance.random() < 0.2:
            runs[chance.randrange(2)] = opened(folder, 0)
        lane = chance.choice(runs)
        first = lane.end.offset.number  # type: ignore[attr-defined]
        write(lane, first, first + chance.randrange(1, 4))
        durable = max(durable, lane.end.offset.number)  # type: ignore[attr-defined]
        [numbers] = drained(opened(folder, 0))
        assert numbers == list(range(1, durable + 1))
    lane = opened(folder, 0)
    taken: list[int] = []
    while step := lane.next_step(1, 5, chance.randrange(1, 4), 1 << 30):
        assert step.changes is not None
        taken += values(step.changes)
        lane = opened(folder, step.position.offset.number)  # type: ignore[attr-defined]
        assert lane.is_joined
    assert taken == list(range(1, durable + 1))


def test_a_table_that_is_at_no_end_of_an_entry_has_no_use_of_the_lane(folder: LaneFolder) -> None:
    assert opened(folder, 2).is_joined
    write(opened(folder, 0), 0, 4)
    assert not opened(folder, 2).is_joined
    assert opened(folder, 4).is_joined


def test_a_last_entry_that_was_half_written_is_deleted_and_any_other_damage_is_an_error(folder: LaneFolder) -> None:
    lane = opened(folder, 0)
    write(lane, 0, 2)
    write(lane, 2, 4)
    last = max(folder.names(), key=lambda name: folder.read(name).count(b'"last": 4'))
    content = folder.read(last)
    folder.remove([last])
    folder.create(last, content[:50])
    again = opened(folder, 0)
    assert again.end == Position(Place(2))
    assert last not in folder.names()
    [first] = folder.names()
    write(again, 2, 3)
    content = folder.read(first)
    folder.remove([first])
    folder.create(first, content[:50])
    with pytest.raises(SnapshotNeededError, match="RPL-4131"):
        drained(opened(folder, 0))


def test_nothing_is_written_or_listed_for_a_run_that_was_superseded(folder: LaneFolder, tmp_path: Path) -> None:
    lane = opened(folder, 0)

    def superseded() -> None:
        raise FencedError("a newer run has taken over", code="RPL-7131")

    folder._fence = superseded
    with pytest.raises(FencedError):
        write(lane, 0, 1)
    with pytest.raises(FencedError):
        folder.names()
    assert not list(tmp_path.rglob("*.entry"))


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (INT64, 4),
        (STRING, "Ulm"),
        (STRING, None),
        (BINARY, b"\x00\xff"),
        (DATE, dt.date(2024, 2, 29)),
        (DecimalType(10, 2), Decimal("12.30")),
    ],
    ids=str,
)
def test_a_change_of_structure_is_given_back_as_it_was(folder: LaneFolder, kind: Any, default: object) -> None:
    added = Column("added", kind)
    event = DDLEvent(
        Place(3),
        DDLOperation.ALTER_TABLE,
        T.table,
        T,
        alters=(Alter(AlterKind.DROP_COLUMN, None, T.columns[0]), Alter(AlterKind.ADD_COLUMN, added, None, default)),
        source_timestamp=dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        sequence_number=9,
        position=Position(Place(3), 2),
    )
    lane = opened(folder, 0)
    write(lane, 0, 3)
    lane.write_event(event)
    write(lane, 3, 4)
    assert drained(opened(folder, 0)) == [[1, 2, 3], event, [4]]
