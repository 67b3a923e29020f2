"""Numbers that follow one another as their first and last: every commit writes the summaries of all snapshots."""

from __future__ import annotations

from collections.abc import Iterable


def as_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """First and last of each run of numbers, ascending."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def as_numbers(ranges: Iterable[list[int]]) -> list[int]:
    """The numbers that `as_ranges` was given."""
    return [number for first, last in ranges for number in range(first, last + 1)]
