"""Offsets of one source are never used on another."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import HistoryLostError
from replicator_state import ReplicatorDirectory, check_identity


def test_the_first_start_remembers_the_source_and_a_foreign_one_is_refused(directory: ReplicatorDirectory) -> None:
    check_identity(directory.states(), "postgres 7412/shop")
    check_identity(directory.states(), "postgres 7412/shop")
    with pytest.raises(HistoryLostError, match=r"RPL-7140.*foreign source.*7412/shop.*7999/shop.*Next:"):
        check_identity(directory.states(), "postgres 7999/shop")
    check_identity(directory.states(), "postgres 7412/shop")
