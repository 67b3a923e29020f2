"""The lineage of a pipeline's tables, which a process finds that loads its plugins; kept for some seconds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.service.pipelines.files import pipeline_file

if TYPE_CHECKING:
    from replicator_runtime.service.context import ServiceContext

_KEPT: Final = 16
_KEPT_SECONDS: Final = 30.0
_SECONDS: Final = 60.0
_PROGRAM: Final = "replicator_runtime.service.observation.lineage.process"


class Lineage:
    """Safe from any thread; what several ask for at once is found once.

    Args:
        context: The service's.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._changed = threading.Condition()
        self._sought: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, str], tuple[str, float, list[dict[str, Any]]]] = {}

    def of(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """The lineage of each table, by the pipeline's JSON and the tables that runs have found.

        Raises:
            ProblemError: When there is no such pipeline, or its JSON is wrong; 503 RPL-1514 when too many wait already, and the
                others of `CommandRunner.run`.
        """
        file = pipeline_file(self._context, namespace, name)
        config = file.read_text("utf-8")
        key = (namespace, name)
        with self._context.commands.waiting(), self._changed:
            self._changed.wait_for(lambda: key not in self._sought, _SECONDS)
            config_then, at, found = self._known.get(key, ("", 0.0, []))
            if config_then == config and time.monotonic() - at < _KEPT_SECONDS:
                return found
            self._sought.add(key)
        try:
            found = self._read(str(file))
            with self._changed:
                self._known.pop(key, None)
                self._known[key] = (config, time.monotonic(), found)
                while len(self._known) > _KEPT:
                    del self._known[next(iter(self._known))]
        finally:
            with self._changed:
                self._sought.discard(key)
                self._changed.notify_all()
        return found

    def _read(self, file: str) -> list[dict[str, Any]]:
        envelope = self._context.commands.run_module([_PROGRAM, file], timeout=_SECONDS)
        envelope.raise_for_error()
        found: list[dict[str, Any]] = envelope.data
        return found
