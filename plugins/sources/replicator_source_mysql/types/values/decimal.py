"""DECIMAL: the log's groups of nine digits, and the server's text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s, fixed_width
from replicator_sdk.authoring.characters import matrix_rows, write_digits
from replicator_source_mysql.types.values.arrays import Cells

_WIDTHS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a group by its digits."""
_LEADING_ZEROS = r"^(-?)0+([0-9])"

Groups = list[tuple[int, Int64s]]
Uint64s = npt.NDArray[np.uint64]


def group_digits(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """How many digits each group before and after the point has; the odd group is the outermost on either side."""
    whole, fraction = precision - scale, scale
    before = [whole % 9] * bool(whole % 9) + [9] * (whole // 9)
    return before, [9] * (fraction // 9) + [fraction % 9] * bool(fraction % 9)


def binary_width(precision: int, scale: int) -> int:
    """How many bytes a value has in the log."""
    return sum(_WIDTHS[digits] for part in group_digits(precision, scale) for digits in part)


def from_cells(cells: Cells, precision: int, scale: int, target: pa.DataType) -> pa.Array:
    """Values of the log as decimal128 or, where the target is text, as the server prints them.

    Raises:
        ValueError: When a value is not as wide as `precision` and `scale` say.
    """
    negative, groups = read_groups(cells.octets(binary_width(precision, scale)), precision, scale)
    if pa.types.is_decimal(target):
        return fixed_width(_words(negative, groups, precision), target, cells.present)
    return text_of(negative, groups, precision - scale, cells.present)


def read_groups(octets: Bytes, precision: int, scale: int) -> tuple[Bools, Groups]:
    """Which values are negative, and all groups from the left, each with its number of digits.

    The sign is the first bit, reversed, so that the bytes sort as the numbers do; a negative value has all bits reversed.
    """
    negative = octets[:, 0] < 0x80
    octets = np.where(negative[:, None], ~octets, octets)
    octets[:, 0] ^= 0x80
    groups: Groups = []
    at = 0
    for digits in (count for part in group_digits(precision, scale) for count in part):
        value = np.zeros(len(octets), np.int64)
        for place in range(at, at + _WIDTHS[digits]):
            value = value << 8 | octets[:, place]
        at += _WIDTHS[digits]
        groups.append((digits, value))
    return negative, groups


def _words(negative: Bools, groups: Groups, precision: int) -> Uint64s:
    """The unscaled numbers as two's complement of 128 bits, low word first."""
    low, high = _small(groups) if precision <= 18 else _large(groups)
    words = np.empty((len(negative), 2), np.uint64)
    words[:, 0] = np.where(negative, ~low + np.uint64(1), low)
    words[:, 1] = np.where(negative, ~high + (low == 0).astype(np.uint64), high)
    return words


def _small(groups: Groups) -> tuple[Uint64s, Uint64s]:
    total = np.zeros_like(groups[0][1])
    for digits, value in groups:
        total = total * 10**digits + value
    return total.astype(np.uint64), np.zeros(len(total), np.uint64)


def _large(groups: Groups) -> tuple[Uint64s, Uint64s]:
    """Four limbs of 32 bits, so that a product with a group's power of ten stays below 64."""
    limbs = [np.zeros(len(groups[0][1]), np.uint64) for _ in range(4)]
    for digits, value in groups:
        carry = value.astype(np.uint64)
        for rank, limb in enumerate(limbs):
            carry += limb * np.uint64(10**digits)
            limbs[rank] = carry & np.uint64(0xFFFFFFFF)
            carry = carry >> np.uint64(32)
    return limbs[0] | limbs[1] << np.uint64(32), limbs[2] | limbs[3] << np.uint64(32)


def text_of(negative: Bools, groups: Groups, whole: int, present: Bools) -> pa.StringArray:
    """The numbers as the server prints them: one digit at least before the point, all digits of the scale after it.

    Args:
        negative: Which have a minus sign.
        groups: Their digits.
        whole: How many of the digits are before the point.
        present: Which are not NULL.
    """
    digits = np.empty((len(negative), sum(count for count, _ in groups)), np.uint8)
    at = 0
    for count, value in groups:
        write_digits(digits, at, count, value)
        at += count
    rows = len(digits)
    zero = np.full((rows, 1), ord("0"), np.uint8)
    before = digits[:, :whole] if whole else zero
    keep_before = np.logical_or.accumulate(before != ord("0"), axis=1)
    keep_before[:, -1] = True
    sign = np.full((rows, 1), ord("-"), np.uint8)
    parts, keeps = [sign, before], [negative[:, None], keep_before]
    if digits.shape[1] > whole:
        after = digits[:, whole:]
        parts += [np.full((rows, 1), ord("."), np.uint8), after]
        keeps.append(np.ones((rows, 1 + after.shape[1]), np.bool_))
    return matrix_rows(pa.string(), np.hstack(parts), keep=np.hstack(keeps), present=present)


def from_text(text: pa.StringArray, target: pa.DataType) -> pa.Array:
    """The server's text as decimal128, or as itself without the zeros of ZEROFILL."""
    if pa.types.is_decimal(target):
        return text.cast(target)
    return pc.replace_substring_regex(text, _LEADING_ZEROS, r"\1\2")


def unsigned_words(values: Uint64s) -> Uint64s:
    """Unsigned 64-bit numbers as decimal128's words."""
    return np.stack([values, np.zeros_like(values)], axis=1)
