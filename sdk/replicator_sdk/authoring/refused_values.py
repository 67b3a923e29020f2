"""Finds which values of a column make its conversion fail, for plugins that mark them instead of failing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Refusal
from replicator_sdk.errors import DataError

_MOST_ASKED = 200


def convert_marked(
    convert: Callable[[pa.Array], pa.Array],
    values: pa.Array,
    kind: pa.DataType,
    lenient: Callable[[pa.Array], pa.Array] | None = None,
) -> tuple[pa.Array, Refusal | None]:
    """Returns `values` converted, with those NULL that cannot be, and which these are; None when there are none.

    A column without such values is converted once. Otherwise halves are converted again and again, unless `lenient` converts all; and
    up to 200 of the values each alone, for the reason: it names what each of them may be.

    Args:
        convert: Converts values one for one; raises `DataError` when it cannot convert one of them.
        values: The column.
        kind: The type that `convert` gives.
        lenient: As `convert`, but gives NULL for values out of range, and never for others that are not NULL; None where there is
            no such function. It may raise `DataError` for other values.
    """
    try:
        return convert(values), None
    except DataError as error:
        first = error
    if lenient is not None:
        try:
            found = lenient(values)
        except DataError:
            pass
        else:
            mask = pc.and_(pc.is_null(found), pc.is_valid(values))
            return found, Refusal(mask, first.code, _reasons(convert, values.filter(mask), first))
    found, places = _halved(convert, values, kind)
    mask = pa.array(places)
    return found, Refusal(mask, first.code, _reasons(convert, values.filter(mask), first))


def _reasons(convert: Callable[[pa.Array], pa.Array], refused: pa.Array, first: DataError) -> str:
    """Why these values are refused: each reason that one of them has, since one text is for all; of very many, that of the first one."""
    found = {first.message: None}
    for place in range(len(refused) if len(refused) <= _MOST_ASKED else 0):
        try:
            convert(refused.take(pa.array([place])))
        except DataError as error:
            found[error.message] = None
    return "; or ".join(found)


def _halved(
    convert: Callable[[pa.Array], pa.Array], values: pa.Array, kind: pa.DataType
) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """What can be converted, and which values cannot; of k such values among n about k log n conversions."""
    mask = np.zeros(len(values), np.bool_)
    parts: list[pa.Array] = []
    waiting = [(0, len(values))]
    while waiting:
        start, stop = waiting.pop()
        part = values.take(pa.array(np.arange(start, stop)))  # no slice: its buffers begin with the part
        try:
            parts.append(convert(part))
        except DataError:
            if stop - start == 1:
                mask[start] = True
                parts.append(pa.nulls(1, kind))
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
    return pa.concat_arrays(parts) if parts else pa.nulls(0, kind), mask
