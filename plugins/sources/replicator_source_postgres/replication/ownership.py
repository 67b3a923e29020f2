"""Which slot and publication of the derived name a replicator's own state has created; its name alone proves nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from replicator_sdk.discovery.clean_up import StoredState
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.replication.log_continuity import STATE_KEY
from replicator_source_postgres.replication.slot import CREATED_KEY, SlotState

_ELSEWHERE = "perhaps another replicator of this `namespace` and `name`, whose state is elsewhere, uses it"


class Ownership:
    """What is stored, compared with what is at the server.

    Args:
        stored: Of all generations, newest first.
    """

    def __init__(self, stored: Sequence[StoredState]) -> None:
        self._stored = stored

    def of_slot(self, state: SlotState) -> str:
        """Why the slot of the derived name may be another replicator's; empty when this one's state has created it.

        A slot is confirmed up to an offset that was saved before, never beyond it, and one that is created later than the last save
        begins after it. So a slot that is confirmed beyond the saved offset belongs to another state, or to a newer one.
        """
        newest = next((one for one in self._stored if _has_begun(one)), None)
        if newest is None:
            return f"the replicator's state has not created it (RPL-3214): {_ELSEWHERE}"
        saved, confirmed = newest.get_offset(), state.confirmed
        if isinstance(saved, PostgresOffset) and confirmed is not None and saved.lsn < confirmed.lsn:
            return f"it is confirmed up to {confirmed}, beyond the saved offset {saved}: {_ELSEWHERE}"
        return ""

    def of_publication(self, identity: str) -> str:
        """The same of the publication with that object identifier."""
        known = [json.loads(text)["publication"] for one in self._stored if (text := one.get_state(STATE_KEY))]
        if known and identity not in known:
            return f"it was created again since the replicator used it: {_ELSEWHERE}"
        if not known and not any(map(_has_begun, self._stored)):
            return f"the replicator's state has not created it: {_ELSEWHERE}"
        return ""


def _has_begun(one: StoredState) -> bool:
    """Whether it has created a slot, or was about to; older versions of the source have stored an offset only."""
    return bool(one.get_state(CREATED_KEY)) or one.get_offset() is not None
