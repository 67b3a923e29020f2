"""The forms in which the engine stores its state values, and the refusal of later ones.

Every value begins with its form and the release that stored it: `{"version": 2, "release": "0.1.0", …`. Values of form 1
of earlier releases have neither. Later forms keep this beginning. A value is stored in the lowest form that can be read right, so that an
earlier release is refused only where it would misread something.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.errors import NeedsUserError
from replicator_state.value_files import UNREADABLE_STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_state import StateStore

_Read = TypeVar("_Read")

TABLES, CHANGES = "engine-tables", "engine-tables-changes"
SLICES, POSITIONS, MAINTENANCE = "engine-slices", "engine-positions", "engine-maintenance"
SETTINGS, APPROVALS, REWIND, LANES = "engine-settings", "engine-approvals", "engine-rewind", "engine-lanes"
ONLY_COPIED, ARCHIVE = "engine-only-copied", "engine-archive"
TOTALS, TOTALS_CHANGES = "engine-totals", "engine-totals-changes"
SCHEDULE, VERIFIED, GAPS = "engine-schedule", "engine-verified", "engine-gaps"
NOTICES = "engine-notices"
FRESHNESS, FRESHNESS_DAYS = "engine-freshness", "engine-freshness-days"
WRITERS = "engine-writers"
_FORMS: Final = {
    TABLES: 4,
    CHANGES: 4,
    SLICES: 1,
    POSITIONS: 1,
    MAINTENANCE: 1,
    SETTINGS: 1,
    APPROVALS: 1,
    REWIND: 1,
    LANES: 1,
    ONLY_COPIED: 1,
    SCHEDULE: 1,
    VERIFIED: 1,
    ARCHIVE: 1,
    GAPS: 1,
    NOTICES: 1,
    TOTALS: 1,
    TOTALS_CHANGES: 1,
    FRESHNESS: 1,
    FRESHNESS_DAYS: 1,
    WRITERS: 1,
}
_HEAD: Final = re.compile(rb'\{"version": (\d+)(?:, "release": "([^"]*)")?')


def head(key: str, form: int | None = None) -> dict[str, Any]:
    """What a value under `key` begins with; in the highest form unless `form` is given."""
    return {"version": _FORMS[key] if form is None else form, "release": release()}


def parsed(key: str, content: bytes) -> Any:
    """The JSON of a value.

    Raises:
        NeedsUserError: RPL-7161 when a later release stored it in a form that this one does not know.
    """
    _check(key, content)
    return json.loads(content)


def read_or_set_aside(store: StateStore, key: str, read: Callable[[Any], _Read]) -> _Read | None:
    """What `read` makes of the JSON of a value that a run can do without.

    Args:
        store: Where it is; a reader's is not changed.
        key: Its key.
        read: What raises of a JSON of another form is taken for damage.

    Returns:
        None where there is none, or it is damaged: then it is set aside, with the warning RPL-7124, and may be written again.

    Raises:
        ReplicatorError: RPL-7161 when a later release stored it; as the store fails.
    """
    try:
        content = store.get(key)
        return read(parsed(key, content)) if content else None
    except NeedsUserError as error:
        if error.code != UNREADABLE_STATE:
            raise
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    store.set_aside(key)
    return None


def check_all(store: StateStore) -> None:
    """Check all values; a damaged one is left to its reader.

    Raises:
        NeedsUserError: As `parsed`.
    """
    for key in _FORMS:
        try:
            content = store.get(key)
        except NeedsUserError as error:
            if error.code != UNREADABLE_STATE:
                raise
        else:
            _check(key, content or b"")


def _check(key: str, content: bytes) -> None:
    found = _HEAD.match(content)
    if found is not None:
        check_form(f"the state value {key}", int(found[1]), _FORMS[key], (found[2] or b"").decode())
