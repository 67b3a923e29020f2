"""What the SDK promises of every target, on the real service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from replicator_sdk.testing.target_suite import TargetConformance
from tests.plugins.targets.bigquery.cdc import test_conformance as cdc
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.real_service import Service

_SERVICE = Service.of_environment()
_DIGITS = 28 if _SERVICE.is_emulated else 38

if _SERVICE.mode == "cdc":

    class TestBigQueryCdc(cdc.TestBigQueryCdc):
        largest_decimal: ClassVar[int] = _DIGITS
        skipped_cases: ClassVar[Mapping[str, str]] = cdc.REFUSED

else:

    class TestBigQuery(TargetConformance):
        cuts: ClassVar[tuple[str, ...]] = ("first alone",)
        random_histories: ClassVar[int] = 2
        interruptions: ClassVar[int] = 3
        fences_maintenance: ClassVar[bool] = False  # a step deletes rows of the commit log that no run reads
        largest_decimal: ClassVar[int] = _DIGITS

        @pytest.fixture
        def system(self, project: Project) -> Project:
            return project
