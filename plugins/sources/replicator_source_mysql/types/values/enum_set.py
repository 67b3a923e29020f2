"""ENUM and SET: numbers in the log, text at the server."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import with_nulls
from replicator_source_mysql.hints import COPY_AGAIN
from replicator_source_mysql.types.values.arrays import Cells
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy

_HINT = f"the table's structure at this log position is not the known one, and a copy of the table alone does not change that: {COPY_AGAIN}"


def enum_members(cells: Cells, members: tuple[str, ...], policy: ColumnPolicy) -> pa.StringArray:
    """The members at the stored numbers; 0, a value that was refused when it was written, is the empty string.

    Raises:
        DataError: When the column has no such member.
    """
    number = _numbers(cells)
    if len(number) and int(number.max()) > len(members):
        raise policy.error("an ENUM number without a member", code="RPL-3737", hint=_HINT)
    names = pa.array(["", *members], pa.string())
    return with_nulls(names.take(pa.array(number.astype(np.int32))), cells.present)


def set_members(cells: Cells, members: tuple[str, ...], policy: ColumnPolicy) -> pa.StringArray:
    """The members whose bits are set, in their order, with commas between.

    Raises:
        DataError: When a bit is that of no member.
    """
    mask, place = np.unique(_numbers(cells), return_inverse=True)
    if len(members) < 64 and (mask >> np.uint64(len(members))).any():
        raise policy.error("a SET bit without a member", code="RPL-3737", hint=_HINT)
    # Each member brings its own comma, of which the last is cut off: joining with a separator loses rows without members.
    parts = [
        pc.if_else(pa.array((mask >> np.uint64(rank) & np.uint64(1)).astype(bool)), f"{member},", "")
        for rank, member in enumerate(members)
    ]
    names = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 0, -1)
    return with_nulls(names.take(pa.array(place)), cells.present)


def _numbers(cells: Cells) -> np.ndarray:
    """Little-endian numbers of any width up to 8 bytes, 0 where absent."""
    width = int(cells.length[cells.present].max(initial=1))
    wide = np.zeros((len(cells.start), 8), np.uint8)
    wide[:, :width] = cells.octets(width)
    wide[~cells.present] = 0
    return wide.view("<u8")[:, 0]
