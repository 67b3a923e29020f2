"""Finds which files of a log the library reads for a version, without a call of Java for each."""

from __future__ import annotations

from typing import Any


def segment_files(segment: Any) -> tuple[list[str], list[str]]:
    """The locations of the newest checkpoint's files, and of the commits after it, oldest first, of Delta's `LogSegment`."""
    return _locations(segment.checkpointProvider().topLevelFiles()), _commits(segment)


def _commits(segment: Any) -> list[str]:
    """By their versions, in which the library has found no gap: asking for each file is most of the time of opening a table."""
    commits, version = segment.deltas(), int(segment.version())
    count = int(commits.size())
    if not count:
        return []
    first, last = _location(commits.head()), _location(commits.last())
    folder = first.rpartition("/")[0]
    named = [f"{folder}/{number:020}.json" for number in range(version - count + 1, version + 1)]
    # Other names, of a catalogue's commits, come after those of the form that the protocol gives.
    return named if (first, last) == (named[0], named[-1]) else _locations(commits)


def _locations(files: Any) -> list[str]:
    return [_location(files.apply(place)) for place in range(int(files.size()))]


def _location(file: Any) -> str:
    return str(file.getPath().toString())
