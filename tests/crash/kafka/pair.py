"""Tables in Kafka and their replicator into the target `file`."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from tests.crash.command import COMMAND as WITHOUT
from tests.crash.copied import copied
from tests.crash.kafka.tables import TABLES, KafkaTables, Row
from tests.crash.kills import killed
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.replicator import Ended, Replicator


@dataclass
class KafkaPair:
    """Tables and a replicator; `source` and `copy` of three runs at once."""

    tables: KafkaTables
    replicator: Replicator
    chance: random.Random = field(default_factory=lambda: random.Random(6))
    _left: list[KafkaPair] = field(default_factory=list)

    def change_rows(self) -> None:
        """Some changes of both tables."""
        self.tables.change_rows(self.chance)

    def change_structure(self) -> None:
        """A column is new, wider, renamed or dropped: what Debezium's records contain of a change of structure."""
        self.tables.change_structure()

    def kill_at(self, point: str) -> None:
        """A run that dies at `point`."""
        killed(self.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)

    def keep(self) -> None:
        """Copy what a kill left, for `assert_recovered`."""
        name = f"kill {len(self._left) + 1}"
        self._left.append(replace(self, replicator=copied(self.replicator, name)))

    def twin(self, removed: str) -> KafkaPair:
        """A copy of what a kill left, to go on from without a part of the recovery."""
        return replace(self, replicator=copied(self.replicator, f"without {removed}", (*WITHOUT, removed)))

    def run_until_current(self) -> Ended:
        """A run that is not killed."""
        return self.replicator.until_current(seconds=120)

    def assert_recovered(self) -> None:
        """Three runs follow the last kill, and each kill whose remains are kept; after each, source and copy are equal."""
        ThreeRuns(self, [self, *self._left]).check()

    def assert_nothing_lost(self) -> None:
        """A run ends equal."""
        self.run_until_current()
        assert self.differences() == {}

    def differences(self) -> dict[str, tuple[int, int]]:
        """Table → how many rows the copy lacks, and has too many; empty when all are equal."""
        found = {}
        for table in TABLES:
            source, copy = self.tables.rows(table), self._copy(table)
            if source != copy:
                found[table] = (source - copy).total(), (copy - source).total()
        return found

    def _copy(self, table: str) -> Counter[Row]:
        path = self.replicator.folder / "target"
        for name, kept in (pickle.loads(path.read_bytes()) if path.exists() else {}).items():
            if (name.schema, name.table) == ("public", table):
                indexes = [kept.schema.names.index(c) for c in self.tables.columns(table) if c in kept.schema]
                return Counter(tuple(row[i] for i in indexes) for row in kept.rows.elements())
        return Counter()
