"""Recovery from a crash between two steps of a slice: without it the next run fails or differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.preparation import created_tables
from replicator_runtime.engine.slices import slice_size
from replicator_runtime.engine.slices.slice_applier import SliceApplier
from replicator_runtime.engine.slices.slice_store import SliceStore
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import Position, failpoint
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.target import MemoryConsumer, MemoryStore, MemoryTarget
from tests.crash import kill_points
from tests.crash.patch import Patch
from tests.runtime.engine.partitioned_shop import PartitionedShop, run_pipeline

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventConsumer, Offset, TableChanges

_REFUSED = "RPL-9000"
"""The target of these tests refuses changes that do not fit its rows: what comes twice, or after something lost."""


def ends_forgotten(patch: Patch) -> None:
    """Slices are cut as if no table had a position, and none had been planned."""
    patch.setattr(SliceStore, "next_end", lambda self, offset: None)


def progress_forgotten(patch: Patch) -> None:
    """The position of a table is ignored."""
    true_apply, true_watermark = MemoryConsumer.apply_batch, created_tables._watermark

    def watermark(
        lifecycle: TableLifecycle, consumer: EventConsumer, record: TableRecord, start: Offset
    ) -> TableWatermark:
        true_watermark(lifecycle, consumer, record, start)
        return TableWatermark(Position(start))

    def apply_batch(self: MemoryConsumer, changes: TableChanges) -> None:
        self._store.progress.pop(changes.table, None)
        true_apply(self, changes)

    patch.setattr(created_tables, "_watermark", watermark)
    patch.setattr(MemoryConsumer, "apply_batch", apply_batch)


def announcements_forgotten(patch: Patch) -> None:
    """A schema change that an earlier run announced is forgotten."""
    true_load = SliceStore.load

    def load(self: SliceStore, positions: Iterator[Offset]) -> None:
        true_load(self, positions)
        self.pending = []

    patch.setattr(SliceStore, "load", load)


def offset_first(patch: Patch) -> None:
    """The offset is saved before the slice is applied."""
    true_apply = SliceApplier.apply

    def apply(self: SliceApplier, piece: Any, current: Offset) -> Any:
        self._run.save_offset(piece.end, piece.last_sequence)
        return true_apply(self, piece, current)

    patch.setattr(SliceApplier, "apply", apply)


_OFF_THE_CHAIN = (ends_forgotten, "RPL-9111")
TWINS: Mapping[str, tuple[Callable[[Patch], None], str]] = {
    "engine.slice.planned": _OFF_THE_CHAIN,
    "engine.slice.applied": (progress_forgotten, _REFUSED),
    "engine.slice.schema_announced": _OFF_THE_CHAIN,
    "engine.slice.schema_applied": (announcements_forgotten, _REFUSED),
    "engine.offset.before_save": (progress_forgotten, _REFUSED),
    "engine.offset.after_save": (offset_first, _REFUSED),
}
"""Place → what is taken away, and the code the next run ends with then."""
PARTS = sorted({broken for broken, _ in TWINS.values()}, key=lambda broken: broken.__name__)


class Copy:
    """A shop and its copy in memory: a run that takes in much at once crashes, the one after it goes in small steps."""

    def __init__(self, folder: Path) -> None:
        self.store = str(folder)
        self.shop = PartitionedShop(folder, 1)
        self.shop.trade(15)
        self.run(2400)
        self.shop.trade(40)
        self.shop.grow()
        self.shop.trade(20)
        self.shop.open_late_table()
        self.shop.grow()
        self.shop.trade(30)

    def run(self, slice_bytes: int, **settings: Any) -> None:
        with Patch() as patch:
            for name, value in (("_FIRST_BYTES", slice_bytes), ("_LEAST_BYTES", 1600), ("_STEP", 1.5)):
                patch.setattr(slice_size, name, value)
            run_pipeline(self.shop.document("memory", {"store": self.store}, **settings), MemoryTarget)

    def crash(self, place: str) -> None:
        failpoint.arm(f"{place}=raise")
        with pytest.raises(ReplicatorError, match=place):
            self.run(9000, retries={"maxDurationSeconds": 0})
        failpoint.arm("")
        self.shop.trade(15)

    def go_on(self) -> None:
        self.run(1600, retries={"maxDurationSeconds": 0})

    def differences(self) -> dict[str, str]:
        rows = MemoryStore.of(self.store).rows
        found = {str(s.table): difference(s, self.shop.rows(s.table), rows(s.table)) for s in self.shop.schemas}
        return {table: what for table, what in found.items() if what}


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    yield Copy(tmp_path)
    failpoint.arm("")
    MemoryStore.forget(str(tmp_path))


def test_every_place_of_the_engine_has_a_twin() -> None:
    assert {place for place in kill_points.OF_SLICES if place.startswith("engine.")} <= TWINS.keys()


@pytest.mark.parametrize("place", TWINS)
def test_what_a_crash_left_is_repaired(copy: Copy, place: str) -> None:
    copy.crash(place)
    copy.go_on()
    assert copy.differences() == {}


@pytest.mark.parametrize("place", TWINS)
def test_without_its_part_of_the_recovery_a_crash_does_harm(copy: Copy, place: str) -> None:
    broken, code = TWINS[place]
    with Patch() as patch:
        broken(patch)
        copy.crash(place)
        with pytest.raises(ReplicatorError) as harm:
            copy.go_on()
    assert harm.value.code == code


@pytest.mark.parametrize("broken", PARTS)
def test_where_nothing_crashes_no_part_is_missed(copy: Copy, broken: Callable[[Patch], None]) -> None:
    with Patch() as patch:
        broken(patch)
        copy.run(9000)
        copy.shop.trade(15)
        copy.go_on()
    assert copy.differences() == {}
