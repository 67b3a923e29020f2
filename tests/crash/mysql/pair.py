"""Tables on MySQL or MariaDB and their replicator into the target `file`, to be killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.crash.copied import copied
from tests.crash.kills import killed
from tests.crash.mysql.command import COMMAND as WITHOUT
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline, make_mysql_pipeline
from tests.services.mysql.server import MysqlDatabase
from tests.services.threads import repeating

_FIRST_SERVER_ID = 7000


@dataclass
class MysqlPair:
    """A pipeline; `source` and `copy` of three runs at once."""

    pipeline: MysqlPipeline
    _left: list[MysqlPair] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def change_rows(self) -> None:
        """Rows of both tables, whatever columns they have."""
        self.pipeline.execute(
            "INSERT INTO item (id, name) SELECT max(id) + 1, 'new' FROM item",
            "DELETE FROM item WHERE id = (SELECT * FROM (SELECT min(id) FROM item) AS least)",
            "UPDATE item SET id = id + 100000 WHERE id % 11 = 0 AND id < 100000",
            "INSERT INTO note (text) VALUES ('twice'), ('twice')",
            "DELETE FROM note WHERE text = 'twice' LIMIT 1",
        )

    def change_structure(self) -> None:
        """Another change of structure at each call, between rows of the old structure and of the new one."""
        number = next(self._numbers)
        name, before = f"c{number}", f"c{number - 1}"
        changes: Sequence[Sequence[str]] = (
            (f"ALTER TABLE item ADD COLUMN {name} int NOT NULL DEFAULT {number} FIRST",),
            (f"ALTER TABLE item CHANGE COLUMN {before} {name} bigint AFTER id",),
            (
                f"ALTER TABLE item DROP COLUMN {before}",
                f"ALTER TABLE note ADD COLUMN {name} varchar(9) DEFAULT '{number}'",
            ),
            (f"ALTER TABLE note DROP COLUMN {before}",),
        )
        self.pipeline.execute(
            f"INSERT INTO note (text) VALUES ('before {number}')", "UPDATE item SET name = 'old' WHERE id % 7 = 0"
        )
        self.pipeline.execute(*changes[number % len(changes)])
        self.pipeline.execute(
            f"INSERT INTO note (text) VALUES ('after {number}')", "UPDATE item SET name = 'new' WHERE id % 5 = 0"
        )

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change rows all the time and structure now and then, from a thread, as long as the block lasts."""
        numbers = itertools.count()

        def change() -> None:
            self.change_rows()
            if next(numbers) % 8 == 0:
                self.change_structure()

        with repeating(change, 0.05):
            yield

    def kill_at(self, point: str) -> None:
        """A run that dies at `point`."""
        killed(self.pipeline.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)

    def keep(self) -> None:
        """Copy what a kill left, for `assert_recovered`; the copy reads the log as a replica of its own."""
        number = len(self._left) + 1
        pipeline = self.pipeline.with_source(serverId=_FIRST_SERVER_ID + number)
        replicator = copied(pipeline.replicator, f"kill {number}")
        self._left.append(MysqlPair(replace(pipeline, replicator=replicator)))

    def twin(self, removed: str) -> MysqlPair:
        """A copy of what a kill left, to go on from without a part of the recovery."""
        replicator = copied(self.pipeline.replicator, f"without {removed}", (*WITHOUT, removed))
        return replace(self, pipeline=replace(self.pipeline, replicator=replicator))

    def with_interval(self, seconds: float) -> MysqlPair:
        """The same pair with another time limit of batches."""
        return replace(self, pipeline=self.pipeline.with_settings(batch={"maxIntervalSeconds": seconds}))

    def run_until_current(self) -> object:
        """A run that is not killed."""
        return self.pipeline.replicator.until_current()

    def assert_nothing_lost(self) -> None:
        """A run ends equal."""
        self.pipeline.assert_nothing_lost()

    def assert_recovered(self) -> None:
        """Three runs follow the last kill, and each kill whose remains are kept; after each, source and copy are equal."""
        ThreeRuns(self, [self, *self._left]).check()

    def differences(self) -> str:
        """How source and copy differ now; empty when they do not."""
        return self.pipeline.differences()


def make_pair(database: MysqlDatabase, folder: Path, package: str) -> MysqlPair:
    """A pair that waits longer for what a kill left at the server to go away."""
    pipeline = make_mysql_pipeline(database, folder / "pipeline", package)
    pipeline.create()
    return MysqlPair(pipeline.with_settings(retries={"maxDurationSeconds": 20, "delaySeconds": 0.2}))
