"""Which parts of the source's log were lost, and what was done of each table: stored, so that an auditor finds them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.stored_forms import GAPS, head, parsed
from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_state import StateStore

GAPS_KEPT: Final = 20


@dataclass(frozen=True, slots=True)
class HealedTable:
    """One table over a gap.

    Attributes:
        table: The table.
        result: `healed`: rows were compared and those that differed written; `copied`: a run copies it again; `left`: the source
            has it no more, and the target's copy stays.
        written: Rows that were written as the source has them.
        deleted: Rows that the source had deleted.
        why: Why it was not healed.
    """

    table: TableId
    result: str
    written: int = 0
    deleted: int = 0
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {**asdict(self), "table": self.table.to_json()}


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """A part of the log that no run has read: what changed there is known by its end only.

    Attributes:
        after: The offset saved last before it, as text.
        until: Where the log is read from again.
        at: When, as ISO 8601 in UTC.
        code: The error by which the loss was found.
        tables: What was done of each table.
    """

    after: str
    until: str
    at: str
    code: str
    tables: tuple[HealedTable, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {**asdict(self), "tables": [table.to_json() for table in self.tables]}


def stored_gaps(store: StateStore) -> list[HistoryGap]:
    """The gaps of a replicator, the newest last."""
    content = store.get(GAPS)
    return [_gap(found) for found in parsed(GAPS, content)["gaps"]] if content else []


def note_gap(store: StateStore, gap: HistoryGap) -> None:
    """Keep it; durable when this returns. One that begins at the same offset is replaced: it was cut off, and done again."""
    gaps: Sequence[HistoryGap] = [known for known in stored_gaps(store) if known.after != gap.after]
    kept = [known.to_json() for known in [*gaps, gap][-GAPS_KEPT:]]
    store.put(GAPS, json.dumps({**head(GAPS), "gaps": kept}).encode())


def _gap(found: dict[str, Any]) -> HistoryGap:
    tables = [HealedTable(**{**table, "table": TableId.from_json(table["table"])}) for table in found.pop("tables")]
    return HistoryGap(**found, tables=tuple(tables))
