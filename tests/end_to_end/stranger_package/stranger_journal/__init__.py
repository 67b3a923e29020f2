"""Two plugins: the source `journal` and the target `ledger`."""

from __future__ import annotations

from replicator_sdk import DeltaSource, DeltaTarget, hookimpl


@hookimpl
def delta_sources() -> list[type[DeltaSource]]:
    """The journal."""
    from stranger_journal.source import JournalSource

    return [JournalSource]


@hookimpl
def delta_targets() -> list[type[DeltaTarget]]:
    """The ledger."""
    from stranger_journal.target import LedgerTarget

    return [LedgerTarget]
