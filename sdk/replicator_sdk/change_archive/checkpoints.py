"""What a reader of an archive has to know of the manifests before one, so that it need not read them: a file for every 256 of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.schema import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM: Final = 1
"""Of checkpoints; a reader refuses a higher one."""
CHECKPOINTS: Final = "_checkpoints"
EVERY: Final = 256
NO_COPY: Final = "its copy is not in the archive, or was deleted after `archive.keepDays`"


def checkpoint_of(number: int) -> str:
    """The checkpoint after the manifest of that number."""
    return f"{CHECKPOINTS}/{number:012d}.json"


@dataclass(slots=True)
class TableState:
    """How the archive has one table.

    Attributes:
        schema: Its definition as JSON; None when no entry says it.
        manifest: Of its last copy, or break; 0 when there is none.
        entry: The rank of that entry in the manifest.
        why: Why its rows are not all there; empty when they are.
        is_broken: Whether a break was the last of the two.
    """

    schema: dict[str, Any] | None = None
    manifest: int = 0
    entry: int = 0
    why: str = NO_COPY
    is_broken: bool = False


class TableStates:
    """The tables that there are after some manifests, by name.

    Args:
        number: Of the last of these manifests.

    Attributes:
        number: The same.
        tables: The tables.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.tables: dict[TableId, TableState] = {}

    def take(self, facts: Mapping[str, Any], manifest: int, entry: int) -> None:
        """Take the next entry, of that rank in that manifest."""
        kind, table = facts["kind"], TableId.from_json(facts["table"])
        if kind == "end":
            self.tables.pop(table, None)
            return
        if kind == "rename":
            self._rename(facts["renames"])
            return
        known = self.tables.setdefault(table, TableState())
        known.schema = (facts["event"]["schema"] if kind == "ddl" else facts.get("schema")) or known.schema
        if kind in {"copy", "break"}:
            known.manifest, known.entry, known.is_broken = manifest, entry, kind == "break"
            known.why = str(facts["why"]) if known.is_broken else ""

    def _rename(self, renames: list[dict[str, Any]]) -> None:
        formers = [TableId.from_json(one["former"]) for one in renames]
        moved = [self.tables.pop(former, None) for former in formers]
        for one, known in zip(renames, moved, strict=True):
            state = TableState() if known is None else known
            state.schema = one["schema"]
            self.tables[TableId.from_json(one["schema"]["table"])] = state

    def content(self) -> bytes:
        """The content of the file."""
        tables = [{"table": table.to_json(), **asdict(state)} for table, state in self.tables.items()]
        return json.dumps({"version": FORM, "release": release(), "number": self.number, "tables": tables}).encode()

    @classmethod
    def of(cls, content: bytes) -> Self | None:
        """The inverse; None for half a file, on file systems that show one.

        Raises:
            NeedsUserError: RPL-7161 when a later release wrote it.
        """
        try:
            value = json.loads(content)
        except ValueError:
            return None
        check_form("a checkpoint of the archive", value["version"], FORM, value["release"])
        states = cls(value["number"])
        for one in value["tables"]:
            facts = {name: item for name, item in one.items() if name != "table"}
            states.tables[TableId.from_json(one["table"])] = TableState(**facts)
        return states
