"""Claims about what a source says of its changes beside their rows: their ordinals, and when they were committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import ClassVar

import pytest

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.schema import TableId
from replicator_sdk.testing.contexts import Window
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.histories.history import History, Step, load_case
from replicator_sdk.testing.recording import recording
from replicator_sdk.testing.source_system import Application, SourceClaims, SourceSystem

_ITEMS = load_case("seed_with_primary_key").tables["customers"]


def _insert(table: str, key: int) -> Step:
    return Step("insert", table, {"rows": [{"id": key, "name": f"n{key}"}]})


_TWO_TABLES = History(
    "two tables",
    "",
    frozenset(),
    {"items": _ITEMS, "others": _ITEMS},
    tuple(
        (_insert("others", key), _insert("items", key), _insert("items", key + 1), _insert("others", key + 1))
        for key in (1, 11, 21)
    ),
)
_YEAR_2000 = 946_684_800_000_000
_DAY = 24 * 60 * 60 * 1_000_000


class NumberingClaims(SourceClaims):
    """Ordinals and commit times."""

    counts_unselected_tables: ClassVar[bool] = True
    """Changes of tables that are not selected take part in the numbering. False for a reader that emits row by row."""

    leaves_numbers_out: ClassVar[bool] = False
    """Numbers are those of places in the log, and some places have no event. True for a log that may lose events."""

    def test_ordinals_count_the_changes_of_all_tables(self, system: SourceSystem) -> None:
        """A change has the same number, counted from one offset, whichever tables are selected.

        No number comes twice, and none is left out, unless `leaves_numbers_out`.
        """
        app = Application(system, _TWO_TABLES)
        schemas = app.describe()
        with recording(system.source, schemas, None) as reader:
            reader.run()
            app.execute_all(app.history.transactions)
            reader.catch_up(self.wait_seconds)
        together = sorted(number for table in schemas for number in _numbers(reader.emitter.closed_windows, table))
        at_step("all tables are selected")
        with comparing("the numbers of all changes and 1, 2, 3 …"):
            counted = list(range(1, len(together) + 1))
            assert (len(set(together)) == len(together)) if self.leaves_numbers_out else (together == counted)
        if not self.counts_unselected_tables:
            pytest.skip("the source does not see the changes of tables that are not selected")
        for table, schema in schemas.items():
            at_step(f"only {table} is selected")
            with recording(
                system.source, {table: schema}, reader.start, capture=[*schemas.values()], state=reader.context.state
            ) as alone:
                alone.run()
                alone.catch_up(self.wait_seconds)
            with comparing(f"the numbers of the changes of {table} when it is selected alone and with other tables"):
                all_of_them = list(_numbers(reader.emitter.closed_windows, table))
                assert list(_numbers(alone.emitter.closed_windows, table)) == all_of_them

    def test_commit_times_are_microseconds(self, system: SourceSystem) -> None:
        """A commit's time is unknown (-1) or microseconds since 1970 UTC: after the year 2000, at most a day from now."""
        app = Application(system, load_case("seed_transactions"))
        with recording(system.source, app.describe(), None) as reader:
            reader.run()
            app.execute_all(app.history.transactions)
            reader.catch_up(self.wait_seconds)
        latest = time.time_ns() // 1000 + _DAY
        for window in reader.emitter.closed_windows:
            assert window.commits is not None
            for stamp in (int(stamp) for stamp in window.commits.timestamps):
                with comparing("a commit's time, the year 2000 and the clock of this machine, in microseconds"):
                    assert stamp == -1 or _YEAR_2000 < stamp < latest


def _numbers(windows: Iterable[Window], table: TableId) -> Iterator[int]:
    """The sequence numbers of a table's changes, in order of emission."""
    for event in (event for window in windows for event in window.events):
        if event.table != table:
            continue
        if isinstance(event, ChangeBatch):
            assert event.sequence_numbers is not None
            yield from (int(number) for number in event.sequence_numbers)
        else:
            yield event.sequence_number
