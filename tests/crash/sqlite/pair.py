"""A SQLite database and its replicator into the target `file` or into Delta, in one folder."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from tests.crash.file_target import file_target_rows
from tests.crash.kill_points import Twin
from tests.crash.kills import harms, killed
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.sqlite.database import TABLES, Database
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Ended, Replicator, Running


@dataclass
class Pair:
    """A database and its replicator; `source` and `copy` of three runs at once."""

    database: Database
    replicator: Replicator
    chance: random.Random
    _structures: int = 0

    def start(self, *arguments: str, point: str = "") -> Running:
        """Start a run that kills itself at `point`."""
        return self.replicator.start(*arguments, REPLICATOR_FAILPOINTS=f"{point}=kill" if point else "")

    def kill_at(self, point: str) -> None:
        """A run that dies at `point`."""
        killed(self.start("--until-current", point=point), point)

    def change_rows(self, transactions: int = 5) -> None:
        """Some random transactions."""
        for _ in range(transactions):
            self.database.change(self.chance)

    def change_structure(self) -> None:
        """Another column, another name of it, or no more notes."""
        cycle, kind = divmod(self._structures, 3)
        self._structures += 1
        statements = (
            f"ALTER TABLE customer ADD COLUMN later_{cycle} TEXT DEFAULT 'later'",
            f"ALTER TABLE customer RENAME COLUMN later_{cycle} TO latest_{cycle}",
            "DELETE FROM note",
        )
        self.database.run(statements[kind])

    def change_everything(self) -> None:
        """Rows, then structure, then rows again."""
        self.database.run("INSERT INTO customer VALUES (5000, 'first', 1)")
        self.change_rows()
        self.database.run("ALTER TABLE customer ADD COLUMN city TEXT DEFAULT 'Rome'")
        self.database.notice()
        self.change_rows()

    def run_until_current(self) -> Ended:
        """A run that is not killed."""
        return self.replicator.until_current()

    def assert_recovered(self, process: OneProcess | None = None) -> None:
        """Three runs follow; after each, source and copy are equal. Runs into Delta are in one process."""
        if self.replicator.target is not None:
            ThreeRuns(self, [self]).check()
        elif process is not None:
            ThreeRuns(self, [CopyInProcess(process, self.replicator.document, self.differences)]).check()
        else:
            with OneProcess(self.replicator.folder / "process", shares_java=True) as own:
                self.assert_recovered(own)

    def differences(self) -> dict[str, int]:
        """Table → how many rows differ between source and copy; empty when all are equal."""
        lost, doubled = self.lost(), self.doubled()
        return {table: count for table in TABLES if (count := lost[table] + doubled[table])}

    def lost(self) -> dict[str, int]:
        """Table → how many of the source's rows the copy does not have."""
        return {table: (self.database.rows(table) - self._copy(table)).total() for table in TABLES}

    def doubled(self) -> dict[str, int]:
        """Table → how many rows the copy has that the source does not have, or not so often."""
        return {table: (self._copy(table) - self.database.rows(table)).total() for table in TABLES}

    def assert_harm(self, twin: Twin, code: str) -> None:
        """A run, which ended with `code` (empty when it went well), did the harm that the twin names."""
        if twin.harm in {"lost", "doubled"}:
            assert not code
            harm = self.lost() if twin.harm == "lost" else self.doubled()
            assert sum(harm.values()) > 0, f"nothing {twin.harm} without {twin.removed!r}"
        else:
            assert code == twin.harm
        harms.append(twin.removed)

    def assert_next_run_harms(self, twin: Twin) -> None:
        """The next run does the harm that the twin names."""
        ended = self.replicator.run("--until-current")
        assert (ended.status == 0) == (not ended.error), ended.messages[-3000:]
        self.assert_harm(twin, ended.error.get("code", ""))

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        if self.replicator.target is not None:
            return file_target_rows(self.replicator.folder / "target", table)
        path = self.replicator.lake / "main" / table
        if not DeltaTable.is_deltatable(str(path)):
            return Counter()
        there = {field.name for field in DeltaTable(str(path)).schema().fields}
        # Where the copy lacks a column of the source, each of its rows has fewer values and so differs.
        return Counter(delta_rows(path, [name for name in self.database.columns(table) if name in there]))
