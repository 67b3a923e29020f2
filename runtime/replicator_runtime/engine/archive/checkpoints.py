"""Writes the archive's checkpoints, so that a reader's start costs the same however long the archive is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_sdk.change_archive.checkpoints import CHECKPOINTS, EVERY, TableStates, checkpoint_of
from replicator_sdk.change_archive.names import MANIFESTS, numbers_of
from replicator_sdk.errors import FencedError, ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_state import ArchiveFolder

log = structlog.get_logger()
_AT_ONCE: Final = 16


class Checkpoints:
    """Used under its owner's lock.

    Args:
        folder: The archive.
        read: Reads the manifest of a number; None where there is none.
    """

    def __init__(self, folder: ArchiveFolder, read: Callable[[int], dict[str, Any] | None]) -> None:
        self._folder = folder
        self._read = read
        self._states: TableStates | None = None

    def write_due(self, number: int) -> None:
        """Write the next checkpoint if it is due, one at a time; what fails is done by a later call.

        Args:
            number: Of the next manifest.

        Raises:
            FencedError: When a newer run took over.
        """
        try:
            states = self._states = self._states or self._last()
            until = (states.number // EVERY + 1) * EVERY
            if until < number:
                self._states = None  # should it fail on the way
                self._states = self._written(states, until)
        except FencedError:
            raise
        except ReplicatorError as error:  # a reader reads more manifests
            log.warning("archive.no_checkpoint", code=error.code, error=error.message)

    def prune(self) -> None:
        """Delete those of which all manifests are gone; the newest one stays.

        Raises:
            ReplicatorError: As the archive fails.
        """
        kept = numbers_of(self._folder.names(MANIFESTS))
        for number in numbers_of(self._folder.names(CHECKPOINTS))[:-1]:
            if not kept or number < kept[0] - 1:
                self._folder.remove(checkpoint_of(number))

    def _last(self) -> TableStates:
        for number in reversed(numbers_of(self._folder.names(CHECKPOINTS))):
            if (states := TableStates.of(self._folder.read(checkpoint_of(number)))) is not None:
                return states
        return TableStates(min(numbers_of(self._folder.names(MANIFESTS)), default=1) - 1)

    def _written(self, states: TableStates, until: int) -> TableStates:
        numbers = range(states.number + 1, until + 1)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="archive") as pool:
            for number, manifest in zip(numbers, pool.map(self._read, numbers), strict=True):
                for rank, facts in enumerate((manifest or {"entries": ()})["entries"]):
                    states.take(facts, number, rank)
        states.number = until
        self._folder.replace(checkpoint_of(until), states.content())
        return states
