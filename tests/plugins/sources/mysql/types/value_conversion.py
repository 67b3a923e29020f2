"""One value in its two forms, for tests: laid out as the log's window, and as a result set's bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import Column
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.binlog_values import LogColumn
from replicator_source_mysql.types.mapping import standard_type
from replicator_source_mysql.types.text_values import TextColumn
from replicator_source_mysql.types.values.out_of_range import Policy


def policy(zero_dates: str = "null", out_of_range: OutOfRange = OutOfRange.FAIL) -> Policy:
    """A policy for a table `shop.orders`."""
    return Policy(zero_dates, out_of_range, "shop.orders", Counter())


def target_of(column: ColumnDefinition, rules: Policy) -> Column:
    kind = standard_type(column.type, rules.zero_dates)
    assert kind is not None
    return Column(column.name, kind)


def from_log(
    column: ColumnDefinition, kind: int, metadata: int, values: Sequence[bytes | None], rules: Policy | None = None
) -> pa.Array:
    """The Arrow array of the log's `values`, which are in a window with other bytes between them; absent ones are nowhere."""
    rules = rules or policy()
    reader = LogColumn(column, kind, metadata, target_of(column, rules), rules)
    window, start, length = bytearray(b"\xff"), [], []
    for value in values:
        start.append(len(window) if value is not None else 1 << 40)
        length.append(len(value) if value is not None else -5)
        window += (value or b"") + b"\xee" * (len(window) % 3)
    present = np.array([value is not None for value in values], np.bool_)
    data = np.frombuffer(bytes(window), np.uint8)
    result = reader.convert(data, np.array(start, np.int64), np.array(length, np.int64), present)
    return checked(result, reader.target)


def from_text(column: ColumnDefinition, values: Sequence[bytes | None], rules: Policy | None = None) -> pa.Array:
    """What a result set's `values` become; as a slice, with a value before them that is not theirs."""
    rules = rules or policy()
    reader = TextColumn(column, target_of(column, rules), rules)
    return checked(reader.convert(pa.array([b"other", *values], pa.binary())[1:]), reader.target)


def checked(result: pa.Array, target: Column) -> pa.Array:
    """`result`, found to be well made and of the target's type."""
    result.validate(full=True)
    assert result.type == target.type.arrow
    return result
