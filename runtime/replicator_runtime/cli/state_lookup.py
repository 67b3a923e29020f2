"""Finds the state of a replicator by its name or its pipeline JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replicator_runtime.config import load_config
from replicator_runtime.config.default_paths import default_base_path
from replicator_sdk.errors import NeedsUserError
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_runtime.config import PipelineConfig

NEVER_RAN = "RPL-1201"


@dataclass(frozen=True, slots=True)
class StateLocation:
    """Where a replicator's state is stored.

    Attributes:
        directory: The state of its newest generation.
        config: Its settings, when it was named by its pipeline JSON.
    """

    directory: ReplicatorDirectory
    config: PipelineConfig | None


def find_state(name: str, namespace: str, base: str | None) -> StateLocation:
    """The state of the replicator `name`, or of the one whose pipeline JSON `name` is.

    Args:
        name: A replicator's name, or the path of an existing file, or anything that ends in `.json`.
        namespace: Its namespace; a pipeline JSON names its own.
        base: Where state is stored; the pipeline's setting, or the default, when None.

    Raises:
        NeedsUserError: RPL-1201 when it never ran there.
        ConfigError: When the pipeline JSON is wrong.
    """
    config = load_config(name) if name.endswith(".json") or Path(name).is_file() else None
    if config is not None:
        name, namespace, base = config.name, config.namespace, base or config.offset_base_path
    directory = ReplicatorDirectory(base or default_base_path(), namespace, name, retry_seconds=5)
    if not directory.generations():
        raise NeedsUserError(
            f'no state of a replicator "{name}" in namespace "{namespace}" at {directory.home}',
            code=NEVER_RAN,
            hint="start it with `replicator run`; `replicator list` shows those that ran; a name alone is looked up at --base and in"
            " --namespace: give these, or the pipeline's file; a relative path is looked up from the working directory",
        )
    return StateLocation(directory, config)
