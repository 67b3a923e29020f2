"""The file of each pipeline, which commands are given: its stored JSON, for this service's user alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from replicator_runtime.service.private_files import write_private
from replicator_state.directory import check_identifier


class PipelineFiles:
    """Files below one folder. Safe from any thread and process: a file is replaced as a whole.

    Args:
        folder: Of this service alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, namespace: str, name: str) -> Path:
        """Where a pipeline's file is.

        Raises:
            ConfigError: RPL-7101 when a name may not be part of a path.
        """
        return self._folder / check_identifier(namespace, "namespace") / f"{check_identifier(name, 'name')}.json"

    def write(self, namespace: str, name: str, config: str) -> Path:
        """Have the file hold `config`; its path."""
        path = self.path(namespace, name)
        with suppress(OSError):
            if path.read_text("utf-8") == config:
                return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, config)
        return path

    def remove(self, namespace: str, name: str) -> None:
        """Delete the file, if there is one."""
        self.path(namespace, name).unlink(missing_ok=True)

    def names(self) -> set[tuple[str, str]]:
        """Namespace and name of each file."""
        return {(path.parent.name, path.stem) for path in self._folder.glob("*/[!.]*.json")}
