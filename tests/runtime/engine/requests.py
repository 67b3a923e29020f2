"""The requests of a test's replicator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_state import RequestFolder
    from tests.runtime.engine.test_run import Shop


def requests(shop: Shop) -> RequestFolder:
    """Where operators ask for something."""
    return ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop").requests()
