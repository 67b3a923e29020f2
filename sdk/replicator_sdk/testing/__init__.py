"""The conformance kit: shows that a source or a target keeps the contract's promises.

Subclass `SourceConformance` or `TargetConformance`, give the one fixture it asks for, say what the plugin cannot do, and
run pytest. Histories are data, in `cases/`; a plain interpreter in `reference` says what must come out. Needs the extra
`testing`.
"""

from __future__ import annotations

import pytest

# So that a failing promise shows both sides; has to happen before the suites are imported.
pytest.register_assert_rewrite(
    "replicator_sdk.testing.ddl_positions",
    "replicator_sdk.testing.kills",
    "replicator_sdk.testing.recording",
    "replicator_sdk.testing.source_system",
    "replicator_sdk.testing.source_suite",
    "replicator_sdk.testing.source_claims",
    "replicator_sdk.testing.target_claims",
)
