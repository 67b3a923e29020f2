"""Offsets, state and leases of replicators, kept on any fsspec path.

`ReplicatorDirectory` is the entry point: it gives the stores and the lease of one replicator's generation.
"""

from __future__ import annotations

from replicator_state.archive_folder import ArchiveFolder
from replicator_state.deletion import Deletion, DeletionNote
from replicator_state.directory import ReplicatorDirectory, check_identifier, replicators
from replicator_state.lane_folder import LaneFolder
from replicator_state.lease.clock import SYSTEM_CLOCK, Clock
from replicator_state.lease.epoch_claim import LEASE_HELD
from replicator_state.lease.lease import Lease
from replicator_state.log_folder import LogFile, LogFolder, LogKind
from replicator_state.offsets.offset_format import SavedOffset, UnreadableFile
from replicator_state.offsets.offset_store import OffsetEntry, OffsetStore
from replicator_state.offsets.retention import Retention
from replicator_state.requests.request import Outcome, OutcomeState, Request
from replicator_state.requests.request_folder import Entry, RequestFolder
from replicator_state.source_identity import check_identity, check_known_identity
from replicator_state.state_store import StateStore, StateValue

__all__ = [
    "LEASE_HELD",
    "SYSTEM_CLOCK",
    "ArchiveFolder",
    "Clock",
    "Deletion",
    "DeletionNote",
    "Entry",
    "LaneFolder",
    "Lease",
    "LogFile",
    "LogFolder",
    "LogKind",
    "OffsetEntry",
    "OffsetStore",
    "Outcome",
    "OutcomeState",
    "ReplicatorDirectory",
    "Request",
    "RequestFolder",
    "Retention",
    "SavedOffset",
    "StateStore",
    "StateValue",
    "UnreadableFile",
    "check_identifier",
    "check_identity",
    "check_known_identity",
    "replicators",
]
