"""Mode `cdc` keeps what the SDK promises of every target, by BigQuery's rules as they are documented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from hypothesis import strategies as st

from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.histories.random_history import random_history
from replicator_sdk.testing.target_suite import CASES, TargetConformance, TargetSystem
from tests.plugins.targets.bigquery.support.project import Project

_TYPES = ("types_arrays", "types_records", "types_bytes", "types_money", "types_times", "types_timestamps", "types_nan")

REFUSED = {
    "add_column_in_transaction": "a default for rows that are there needs an UPDATE",
    "rename_key_column": "changes are applied by the key that the table declares",
}


class TestBigQueryCdc(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 2
    interruptions: ClassVar[int] = 3
    fences_maintenance: ClassVar[bool] = False  # a step deletes rows of the commit log that no run reads
    largest_decimal: ClassVar[int] = 28  # the emulator has no BIGNUMERIC
    supports_keyless: ClassVar[bool] = False
    supports_null_keys: ClassVar[bool] = False
    supports_unchanged: ClassVar[bool] = False
    skipped_cases: ClassVar[Mapping[str, str]] = {
        # Each case takes the emulator a second; what follows from a key's last state alone is test_replays' business.
        **{c.name: "by test_replays" for c in CASES if c.name.startswith(("key_", "insert_", "delete_", "many_"))},
        **{c.name: "by test_messages" for c in CASES if c.name.startswith("types_") and c.name not in _TYPES},
        **REFUSED,
    }
    # Both are mode batch's own code: chunks are loaded by its load jobs, and net changes read rows before a change alike.
    test_snapshots_load_every_value = None  # type: ignore[assignment]
    test_whole_rows_before_a_change_are_as_good_as_keys = None  # type: ignore[assignment]

    @pytest.mark.parametrize("name", ["seed_without_primary_key", "add_column"])
    def test_an_interrupted_call_leaves_rows_and_progress_that_fit(self, system: TargetSystem, name: str) -> None:
        """Without TRUNCATE, which creates the table again: no stream can do that together with its progress, and a replay does it again."""
        super().test_an_interrupted_call_leaves_rows_and_progress_that_fit(system, name)

    @pytest.fixture
    def system(self, project: Project) -> Project:
        return project

    def _any_history(self) -> st.SearchStrategy[History]:
        """Without defaults of new columns, which need an UPDATE."""
        return random_history(keyless=False, unchanged=False)
