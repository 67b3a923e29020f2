"""The archive as a source passes the conformance kit, as a third-party source would."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_sdk.testing.source_suite import SourceConformance
from tests.plugins.sources.archive.source_system import ArchiveSystem


class TestArchive(SourceConformance):
    random_histories = 5
    emits_renames = True

    @pytest.fixture
    def system(self, tmp_path: Path) -> ArchiveSystem:
        return ArchiveSystem(tmp_path / "archive")
