"""The phases of a run, as status, metrics and messages name them."""

from __future__ import annotations

from typing import Final

PHASES: Final = ("starting", "snapshot", "streaming", "retrying", "paused", "stopping", "maintenance", "done", "failed")
ENDED: Final = frozenset({"done", "failed"})
"""Those of a run that has ended in order."""
