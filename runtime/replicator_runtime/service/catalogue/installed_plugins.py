"""Which plugins are installed, with the schemas of their settings: asked of the command line, and kept for a while."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from replicator_runtime.service.problems import NOT_FOUND, ProblemError

if TYPE_CHECKING:
    from replicator_runtime.service.commands.runner import CommandRunner

_KEPT_SECONDS = 300.0
_AGAIN_SECONDS = 30.0
_TIMEOUT = 120.0
log = structlog.get_logger()


@dataclass(slots=True)
class _Known:
    """What was found last, by any service of this process: packages belong to the interpreter."""

    plugins: list[dict[str, Any]] = field(default_factory=list)
    asked: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


_KNOWN = _Known()


class InstalledPlugins:
    """The plugins that pipelines may name. Safe from any thread.

    Args:
        commands: Runs the command line, which loads the packages.
    """

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands

    def all(self) -> list[dict[str, Any]]:
        """Each plugin as `replicator plugins --schemas --json` prints it.

        What was found is kept for five minutes, and then until it was found again: only the first time someone waits.

        Raises:
            ProblemError: When that command fails, or too many wait for it.
        """
        is_old = time.monotonic() - _KNOWN.asked > _KEPT_SECONDS
        if not is_old:
            return _KNOWN.plugins
        if _KNOWN.plugins:
            if _KNOWN.lock.acquire(blocking=False):
                threading.Thread(target=self._ask_again, name="plugins", daemon=True).start()
            return _KNOWN.plugins
        with self._commands.waiting(), _KNOWN.lock:
            if not _KNOWN.plugins:
                self._ask()
            return _KNOWN.plugins

    def _ask(self) -> None:
        # Without a turn: the checks of configs need the list, whatever other commands wait for.
        found = self._commands.run_at_once(["plugins", "--schemas"], _TIMEOUT)
        found.raise_for_error()
        _KNOWN.plugins, _KNOWN.asked = found.data, time.monotonic()

    def _ask_again(self) -> None:
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 - what was found before is still good
            _KNOWN.asked = time.monotonic() - _KEPT_SECONDS + _AGAIN_SECONDS
            log.warning("service.plugins_not_read", kind=type(error).__name__)
        finally:
            _KNOWN.lock.release()

    def find(self, kind: str, name: str) -> dict[str, Any]:
        """The plugin of a type and a name.

        Raises:
            ProblemError: 404 RPL-1501 when none is installed.
        """
        for plugin in self.all():
            if plugin["type"] == kind and plugin["name"] == name:
                return plugin
        raise ProblemError(
            404, NOT_FOUND, "no such plugin is installed", hint="the list of plugins shows their types and names"
        )
