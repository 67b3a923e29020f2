"""The target's half of the kit: subclass `TargetConformance`, give the fixture `system`, run pytest.

class TestMyTarget(TargetConformance):
    supports_rename_column = False

    @pytest.fixture
    def system(self, tmp_path):
        return MySystem(tmp_path)
"""

from __future__ import annotations

from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.target_claims.atomicity import AtomicityClaims
from replicator_sdk.testing.target_claims.databases import DatabaseClaims
from replicator_sdk.testing.target_claims.histories import CASES, CUTS, HistoryClaims
from replicator_sdk.testing.target_claims.maintenance import MaintenanceClaims
from replicator_sdk.testing.target_claims.renames import RenameClaims
from replicator_sdk.testing.target_claims.snapshots import SnapshotClaims
from replicator_sdk.testing.target_claims.structure import StructureClaims
from replicator_sdk.testing.target_claims.target_system import TargetSystem
from replicator_sdk.testing.target_claims.unordered_changes import UnorderedChangeClaims
from replicator_sdk.testing.target_claims.unsent_columns import UnsentColumnClaims
from replicator_sdk.testing.target_claims.writers import WriterClaims

__all__ = ["CASES", "CUTS", "Row", "TargetConformance", "TargetSystem"]


class TargetConformance(
    HistoryClaims,
    WriterClaims,
    SnapshotClaims,
    StructureClaims,
    AtomicityClaims,
    UnsentColumnClaims,
    UnorderedChangeClaims,
    RenameClaims,
    DatabaseClaims,
    MaintenanceClaims,
):
    """What every target promises. Each test's docstring is the promise."""
