"""Mode merge-flush keeps what the SDK promises of every target, as far as the emulator can show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.plugins.targets.bigquery.support.project import Project


class TestMergeFlush(TargetConformance):
    cuts: ClassVar[tuple[str, ...]] = ("first alone",)
    random_histories: ClassVar[int] = 2
    interruptions: ClassVar[int] = 3
    fences_maintenance: ClassVar[bool] = False  # a step deletes rows of the commit log that no run reads
    largest_decimal: ClassVar[int] = 28  # the emulator has no BIGNUMERIC
    supports_keyless: ClassVar[bool] = False
    skipped_cases: ClassVar[Mapping[str, str]] = {
        "rename_key_column": "a key whose fields get other names is not backwards compatible",
        "tricky_names": "the emulator makes no STRUCT with a field named `select`; test_forms has the other names",
    }
    # Random histories carry whole rows, too.
    test_whole_rows_before_a_change_are_as_good_as_keys = None  # type: ignore[assignment]
    # Snapshots go by mode batch's load jobs, where the kit tries them; test_forms sees to the key column.
    test_snapshots_load_every_value = None  # type: ignore[assignment]
    test_a_failed_snapshot_step_can_be_repeated = None  # type: ignore[assignment]
    test_an_interrupted_snapshot_goes_on = None  # type: ignore[assignment]

    @pytest.fixture
    def system(self, project: Project) -> Project:
        return project
