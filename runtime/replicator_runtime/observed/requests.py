"""What operators asked for, and what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_state import Entry


def request_json(entry: Entry) -> dict[str, object]:
    """A request and its outcome, in JSON values."""
    request, outcome = entry.request, entry.outcome
    refused = f"{outcome.code}: {outcome.message}" if outcome is not None and outcome.code else ""
    return {
        "request": entry.request_id,
        "at": request.at.isoformat(timespec="seconds") if request else None,
        "by": request.by if request else None,
        "command": request.command if request else None,
        "tables": list(request.arguments.get("tables", ())) if request else [],
        "state": outcome.state.value if outcome else "waiting",
        "endedAt": outcome.at.isoformat(timespec="seconds") if outcome else None,
        "endedBy": outcome.by if outcome else None,
        "text": refused or "; ".join(outcome.lines if outcome else ()),
    }
