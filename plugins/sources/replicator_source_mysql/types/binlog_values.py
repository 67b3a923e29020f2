"""One column's values in the binlog as an Arrow array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s, fixed_width, validity
from replicator_sdk.batch import Refusal
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import Column
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.column_form import FLOATS, INTEGERS, SHARED, ColumnForm
from replicator_source_mysql.types.json.text import documents
from replicator_source_mysql.types.values import compressed_columns as compressed
from replicator_source_mysql.types.values import decimal, temporal
from replicator_source_mysql.types.values import enum_set as members
from replicator_source_mysql.types.values import fixed_bytes as binary_form
from replicator_source_mysql.types.values.arrays import Cells
from replicator_source_mysql.types.values.charset import decode
from replicator_source_mysql.types.values.out_of_range import Policy

_JSON = 245
_OLD = frozenset({temporal.OLD_TIMESTAMP, temporal.OLD_TIME, temporal.OLD_DATETIME})
_INTEGER_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}


class LogColumn:
    """Turns one column's values of a window of the log into Arrow, with no Python for single values but for JSON,
    compressed columns and INET6. Picklable; used by one thread at a time because of the policy's count.

    Args:
        column: The column as the table had it at this log position.
        kind: The type code of the log's table map; for what travels as MYSQL_TYPE_STRING its real type.
        metadata: The table map's metadata of the column: digits of a fraction for temporal types, precision and scale in
            two bytes, in either order, for DECIMAL; other types do not need it.
        target: The column of the result.
        policy: What happens to values out of range.
        marks: Whether `convert_marked` marks values instead of raising; False for a key's column.

    Raises:
        NeedsUserError: When the column's values cannot be read: an unknown character set, or MariaDB's own form of times
            from before 10.1 with a fraction.
    """

    def __init__(
        self, column: ColumnDefinition, kind: int, metadata: int, target: Column, policy: Policy, *, marks: bool = False
    ) -> None:
        self.target = target
        self._marks = marks
        self._kind = kind
        self._metadata = metadata
        self._form = ColumnForm.of(column, target.type, policy)
        self._read = _reader(self._form)
        if kind in _OLD and self._form.digits:
            raise NeedsUserError(
                f"column {column.name!r} stores fractions of seconds in a form of MariaDB's that the log does not describe",
                code="RPL-3740",
                table=str(policy.table),
                hint="ALTER TABLE … FORCE with mysql56_temporal_format = ON, or leave the column out",
            )

    def convert(self, data: Bytes, start: Int64s, length: Int64s, present: Bools) -> pa.Array:
        """The values in the target's Arrow type, in the order of `start`.

        Args:
            data: The window.
            start: Where each value begins, after its length.
            length: Its bytes; for types of a fixed width that width.
            present: False for NULL, whose start and length are anything.

        Raises:
            DataError: When a value is outside the type's range and the policy is to fail, or is no value of the type.
        """
        return self._converted(Cells(data, start, length, present), self._form)

    def convert_marked(
        self, data: Bytes, start: Int64s, length: Int64s, present: Bools
    ) -> tuple[pa.Array, Refusal | None]:
        """As `convert`; where the column marks, values for which it raises are NULL instead, and the second part says which.

        Raises:
            DataError: As `convert`, unless the column marks.
        """
        if not self._marks:
            return self.convert(data, start, length, present), None

        def at(places: pa.Array, form: ColumnForm) -> pa.Array:
            chosen = places.fill_null(0).to_numpy()
            return self._converted(Cells(data, start[chosen], length[chosen], validity(places)), form)

        return self._form.convert_marked(at, pa.array(np.arange(len(start)), mask=~present))

    def _converted(self, cells: Cells, form: ColumnForm) -> pa.Array:
        try:
            return self._read(cells, form, self._kind, self._metadata)
        except (ValueError, pa.ArrowInvalid):
            # Their messages may quote the value.
            raise form.policy.unreadable(form.source) from None


_Reader = Callable[[Cells, ColumnForm, int, int], pa.Array]


def _reader(form: ColumnForm) -> _Reader:
    if form.name in INTEGERS:
        return _integers
    return _shared if form.name in SHARED else _READERS[form.name]


def _integers(cells: Cells, form: ColumnForm, _kind: int, _metadata: int) -> pa.Array:
    sign = "u" if form.type.is_unsigned else "i"
    values: npt.NDArray[Any]
    if form.name == "mediumint":
        wide = np.zeros((len(cells.start), 4), np.uint8)
        # In the upper three bytes, so that shifting down again extends the sign.
        wide[:, 1:] = cells.octets(3)
        values = wide.view(f"<{sign}4")[:, 0] >> 8
    else:
        values = cells.numbers(f"<{sign}{_INTEGER_BYTES[form.name]}")
    if pa.types.is_decimal(form.target.arrow):
        return fixed_width(decimal.unsigned_words(values.astype(np.uint64)), form.target.arrow, cells.present)
    return fixed_width(values.astype(form.target.arrow.to_pandas_dtype()), form.target.arrow, cells.present)


def _floats(cells: Cells, form: ColumnForm, _kind: int, _metadata: int) -> pa.Array:
    return fixed_width(cells.numbers("<f4" if form.name == "float" else "<f8"), form.target.arrow, cells.present)


def _decimals(cells: Cells, form: ColumnForm, _kind: int, metadata: int) -> pa.Array:
    # Both orders of the two bytes are in use; the precision is never the smaller one.
    scale, precision = sorted((metadata & 0xFF, metadata >> 8))
    return decimal.from_cells(cells, precision, scale, form.target.arrow)


def _shared(cells: Cells, form: ColumnForm, kind: int, _metadata: int) -> pa.Array:
    raw = cells.binary()
    return SHARED[form.name](compressed.expand(raw) if kind in compressed.KINDS else raw, form)


def _json(cells: Cells, form: ColumnForm, kind: int, _metadata: int) -> pa.Array:
    """MySQL's binary form, or MariaDB's, which is text."""
    raw = cells.binary()
    return documents(raw, form.policy) if kind == _JSON else decode(raw, form.charset or "utf8mb4", form.policy)


def _uuids(cells: Cells, form: ColumnForm, _kind: int, _metadata: int) -> pa.Array:
    return binary_form.uuids(cells.binary(), is_old="old" in form.source)


_READERS: dict[str, _Reader] = {
    **dict.fromkeys(FLOATS, _floats),
    "decimal": _decimals,
    "date": lambda cells, form, _kind, _metadata: temporal.dates(cells, form.target, form.policy),
    "datetime": lambda cells, form, kind, digits: temporal.datetimes(cells, kind, digits, form.target, form.policy),
    "timestamp": lambda cells, form, kind, digits: temporal.timestamps(cells, kind, digits, form.target, form.policy),
    "time": lambda cells, _, kind, digits: temporal.times(cells, kind, digits),
    "year": lambda cells, form, _kind, _metadata: temporal.years(cells, form.digits),
    "enum": lambda cells, form, _kind, _metadata: members.enum_members(cells, form.type.members, form.policy),
    "set": lambda cells, form, _kind, _metadata: members.set_members(cells, form.type.members, form.policy),
    "json": _json,
    "uuid": _uuids,
    "inet4": lambda cells, _form, _kind, _metadata: binary_form.inet4(cells.binary()),
    "inet6": lambda cells, _form, _kind, _metadata: binary_form.inet6(cells.binary()),
}
