"""Finds what is new in the lineage of a run's tables since it was looked at last."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.lineage.datasets import TableLineage
    from replicator_sdk import TableId


class Kind(enum.Enum):
    """What happened to a table."""

    KNOWN = "known"
    """The run found it replicated when it began."""
    CREATED = "created"
    ALTERED = "altered"
    RENAMED = "renamed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Change:
    """What is new of one table.

    Attributes:
        kind: What happened.
        lineage: Its lineage now; of a dropped table, as it was.
        former: Its lineage under the name before, of a renamed table.
    """

    kind: Kind
    lineage: TableLineage
    former: TableLineage | None = None


@dataclass(slots=True)
class Seen:
    """What was seen of the tables of a run. Used by one thread.

    Attributes:
        tables: Their lineage when they were looked at last.
        first: Whether they were looked at never.
        again: Whether the next look is to find all of them, since what was published of them may be lost.
    """

    tables: dict[TableId, TableLineage] = field(default_factory=dict)
    first: bool = True
    again: bool = False

    def changes(self, now: Mapping[TableId, TableLineage], gone: frozenset[TableId]) -> list[Change]:
        """What is new, each change once.

        Args:
            now: The lineage of the tables that the target has.
            gone: Those that the source has dropped. Others that are not in `now` stay as they are.
        """
        created = Kind.KNOWN if self.first else Kind.CREATED
        former = {one.copy_id: (table, one) for table, one in self.tables.items() if one.copy_id and table not in now}
        found = []
        for table, lineage in now.items():
            before = self.tables.get(table)
            if before is None and lineage.copy_id in former:
                place, was = former.pop(lineage.copy_id)
                del self.tables[place]
                found.append(Change(Kind.RENAMED, lineage, was))
            elif before is None:
                found.append(Change(created, lineage))
            elif (before.source, before.target, before.fields) != (lineage.source, lineage.target, lineage.fields):
                found.append(Change(Kind.ALTERED, lineage))
            elif self.again:
                found.append(Change(Kind.KNOWN, lineage))
            self.tables[table] = lineage
        found += [Change(Kind.DROPPED, self.tables.pop(table)) for table in gone if table in self.tables]
        self.first, self.again = self.first and not now, False
        return found
