"""Where state is kept when the pipeline does not say."""

from __future__ import annotations

import os
from pathlib import Path


def default_base_path() -> str:
    """`$XDG_STATE_HOME/replicator`, by default `~/.local/state/replicator`."""
    state_home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state_home) if Path(state_home).is_absolute() else Path.home() / ".local" / "state"
    return str(base / "replicator")


def expand_home(path: str) -> str:
    """`path` with a leading `~` replaced; anything else, URLs included, as it is."""
    return str(Path(path).expanduser()) if path.startswith("~") else path


def default_service_folder() -> Path:
    """Beside it, for a service: `$XDG_STATE_HOME/replicator-service`. No replicator keeps its state there."""
    return Path(default_base_path() + "-service")
