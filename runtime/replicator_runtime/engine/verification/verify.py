"""Compares the tables of a pipeline one by one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_runtime.engine.control.table_names import find_table
from replicator_runtime.engine.verification.common_position import STOPPED
from replicator_runtime.engine.verification.comparable import refuse_letters
from replicator_runtime.engine.verification.table_comparison import TableComparison
from replicator_sdk.errors import ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.verification.reading import Reading
    from replicator_runtime.engine.verification.table_comparison import Comparison, Settings
    from replicator_sdk import TableId


@dataclass(frozen=True, slots=True)
class Verified:
    """One table.

    Attributes:
        table: The table.
        seconds: How long it took.
        found: What was found; None when it could not be compared.
        error: Why not.
    """

    table: TableId
    seconds: float
    found: Comparison | None
    error: ReplicatorError | None


def verify(reading: Reading, names: Sequence[str], settings: Settings) -> list[Verified]:
    """Compare tables; reads only, needs no lease, and keeps no one from writing.

    A table that cannot be compared does not keep the others from it.

    Args:
        reading: The replicator.
        names: Which tables; all that the pipeline selects when empty.
        settings: How.

    Raises:
        NeedsUserError: RPL-1220 for an unknown table; RPL-1361 or RPL-1362 when source or target cannot be read.
        ReplicatorError: When the state cannot be read, or Spark does not start.
    """
    selects = reading.pipeline.selection.matches
    known = {table: record for table, record in reading.records().items() if selects(table) is not None}
    wanted = sorted(dict.fromkeys(find_table(name, known) for name in names)) if names else sorted(known)
    reading.snapshot_reader().close()
    try:
        target = reading.table_reader()
        found: list[Verified] = []
        for table in wanted:
            if reading.stop.is_set():
                break
            found.append(_verified(reading, known[table], TableComparison(reading, known[table], target, settings)))
        return [one for one in found if one.error is None or one.error.code != STOPPED]
    finally:
        reading.spark.stop()


def verify_table(reading: Reading, record: TableRecord, settings: Settings) -> Verified:
    """Compare one table, as `verify` does; the session stays.

    Args:
        reading: The replicator.
        record: The table as it was stored last.
        settings: How.
    """
    try:
        target = reading.table_reader()
    except ReplicatorError as why:
        return Verified(record.table, 0.0, None, why)
    return _verified(reading, record, TableComparison(reading, record, target, settings))


def _verified(reading: Reading, record: TableRecord, comparison: TableComparison) -> Verified:
    began = time.monotonic()
    try:
        refuse_letters(reading.directory.dead_letters(), record)
        found, error = comparison.run(), None
    except ReplicatorError as why:
        found, error = None, why
    return Verified(record.table, time.monotonic() - began, found, error)
