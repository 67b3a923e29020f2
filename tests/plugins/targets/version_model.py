"""What a table of versions has after a history, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.event import DMLOperation
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.reference import RowChange
from tests.plugins.targets.changes import at

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Version:
    """One version of a row; times in microseconds since 1970 UTC."""

    row: dict[str, Any]
    number: int
    start: int
    end: int | None = None
    end_number: int | None = None

    def columns(self) -> dict[str, Any]:
        """As readers see it."""
        return self.row | {
            "_sequence_num": self.number,
            "_valid_from": instant(self.start),
            "_valid_to": None if self.end is None else instant(self.end),
            "_is_current": self.end is None,
            "_end_sequence_num": self.end_number,
        }


@dataclass
class VersionsModel:
    """A table with the key `id`."""

    versions: list[Version] = field(default_factory=list)
    current: dict[Any, Version] = field(default_factory=dict)

    def apply(self, changes: Sequence[tuple[RowChange, int, int]]) -> None:
        """A batch: each change with its number and its time. What is later at a key in a batch is never earlier by the clock."""
        latest: dict[Any, int] = {}

        def time_at(key: Any, time: int) -> int:
            there = self.current.get(key)
            latest[key] = max(time, latest.get(key, time), time if there is None else there.start)
            return latest[key]

        for change, number, time in changes:
            new = None if change.operation is DMLOperation.DELETE else dict(change.row)
            old_key = change.before["id"] if change.before is not None else change.row["id"]
            before = self.current.get(old_key)
            if new is not None:
                values = {name: before.row[name] for name in change.unchanged} if before is not None else {}
                new |= values
            if new is None or new["id"] != old_key:
                self._end(old_key, number, time_at(old_key, time))
            if new is not None:
                start = time_at(new["id"], time)
                self._end(new["id"], number, start)
                version = Version(new, number, start)
                self.versions.append(version)
                self.current[new["id"]] = version

    def compare(
        self, rows: Mapping[Any, dict[str, Any]], keys: Iterable[Any], number: int, ended: int, opened: int
    ) -> None:
        """Of these keys the table is to hold these rows: what is gone ends at one time, what differs at the time when another is opened."""
        for key in keys:
            there, new = self.current.get(key), rows.get(key)
            if there is not None and there.row == new:
                continue
            if there is not None:
                self._end(key, number, max(there.start, ended if new is None else opened))
            if new is not None:
                start = opened if there is None else max(opened, there.start)
                self.current[key] = Version(dict(new), number, start)
                self.versions.append(self.current[key])

    def _end(self, key: Any, number: int, time: int) -> None:
        there = self.current.pop(key, None)
        if there is not None:
            there.end, there.end_number = time, number


def instant(microseconds: int) -> datetime:
    """The time."""
    return _BEGINNING + timedelta(microseconds=microseconds)


def counted(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The rows, how often each is there; their columns in the order of their names."""
    return Counter(tuple(row[name] for name in sorted(row)) for row in rows)


def timed(position: int, rows: Sequence[RowChange], *times: int, overlap: bool = False) -> TableChanges:
    """As `batch`, of these commit times, in microseconds since 1970 UTC."""
    numbered = replace(to_batch(rows, range(len(rows)), position * 1000, 0), timestamps=np.array(times, np.int64))
    identity = BatchIdentity(1, 1, position * 1000 + 1, position * 1000 + len(rows), at(position))
    return to_table_changes([numbered], identity, overlap=overlap)


def assert_in_order(rows: Sequence[dict[str, Any]], *key: str, times: bool = True) -> None:
    """Each key's versions follow one another: none overlaps another, by number or by time, and the last one alone may be current.

    Args:
        rows: The versions.
        key: The columns that say of which row they are; `id` where none are named.
        times: Whether the times of a key never fall; else those of each version by itself.
    """
    by_key: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(tuple(repr(row[name]) for name in key or ("id",)), []).append(row)
    for versions in by_key.values():
        versions.sort(key=lambda row: (row["_sequence_num"], row["_end_sequence_num"] or 2**63))
        for version, after in zip(versions, [*versions[1:], None], strict=True):
            is_current = version["_end_sequence_num"] is None
            assert version["_is_current"] == is_current
            assert (version["_valid_to"] is None) == is_current
            if is_current:
                assert after is None, "a version follows one that is current"
                continue
            assert version["_sequence_num"] < version["_end_sequence_num"]
            assert version["_valid_from"] <= version["_valid_to"]
            if after is not None:
                assert version["_end_sequence_num"] <= after["_sequence_num"]
                assert not times or version["_valid_to"] <= after["_valid_from"]
