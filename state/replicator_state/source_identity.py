"""A replicator's offsets belong to one source; another one is refused, since its positions mean nothing there."""

from __future__ import annotations

from replicator_sdk.errors import HistoryLostError
from replicator_state.state_store import StateStore

IDENTITY_KEY = "source-identity"


def check_known_identity(store: StateStore, identity: str) -> bool:
    """Refuse a source that the state does not belong to; stores nothing.

    Returns:
        Whether the state knows its source.

    Raises:
        HistoryLostError: RPL-7140, as `check_identity`.
    """
    known = store.get(IDENTITY_KEY)
    if known is not None and known != identity.encode():
        raise HistoryLostError(
            f"foreign source: the saved offsets are of {known.decode(errors='replace')}, the source is now {identity}",
            code="RPL-7140",
            hint="point the pipeline back at the source it was started with, or, to replace what the target has by this source, `replicator reset PIPELINE`: every table is copied again",
        )
    return known is not None


def check_identity(store: StateStore, identity: str) -> None:
    """Store the source's identity at the first start, and refuse another one later.

    Args:
        store: The runtime's own state (not a plugin's scope).
        identity: What `DeltaSource.identity` says now.

    Raises:
        HistoryLostError: RPL-7140 when the state belongs to another source: positions of one log mean nothing in
            another (restored from backup, failed over, or the settings name another server).
    """
    if not check_known_identity(store, identity):
        store.put(IDENTITY_KEY, identity.encode())
