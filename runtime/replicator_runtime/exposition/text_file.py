"""Writes a registry to a file that the node exporter's textfile collector reads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import write_to_textfile

from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

log = structlog.get_logger()
EVERY_SECONDS: Final = 15.0


class TextFile:
    """Replaces the file from construction on, every 15 seconds and when it is closed; readers see a whole one.

    Args:
        path: The file, in a folder that exists.
        registry: What is written.

    Raises:
        NeedsUserError: RPL-7212 when it cannot be written.
    """

    def __init__(self, path: str, registry: CollectorRegistry) -> None:
        self._path = path
        self._registry = registry
        try:
            write_to_textfile(path, registry)
        except OSError as error:
            raise NeedsUserError(
                f"metrics cannot be written to {path}: {(error.strerror or str(error)).lower()}",
                code="RPL-7212",
                hint="make its folder and let this user write there, or give another file with --metrics-textfile",
            ) from error
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="metrics-file", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write a last time."""
        self._done.set()
        self._thread.join()
        self._write()

    def _loop(self) -> None:
        while not self._done.wait(EVERY_SECONDS):
            self._write()

    def _write(self) -> None:
        try:
            write_to_textfile(self._path, self._registry)
        except OSError as error:
            log.warning("metrics.not_written", path=self._path, error=(error.strerror or str(error)).lower())
