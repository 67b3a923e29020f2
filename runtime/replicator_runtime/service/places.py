"""Bounds how many requests wait at once for a command or a state, so that all others have a thread at any time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
from fastapi import Request

from replicator_runtime.service.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TOO_MANY: Final = "RPL-1514"
_PATIENCE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks for a command.

    Attributes:
        namespace: Of the request; empty for what belongs to the whole service.
        reads: Whether viewers may ask for the same.
    """

    namespace: str = ""
    reads: bool = False


_SERVICE: Final = Asking()
asking: ContextVar[Asking] = ContextVar("asking", default=_SERVICE)
"""Of the request under way: set where it is known what it requires."""


class Places:
    """Places for requests that wait. Safe from any thread.

    Args:
        in_all: So many at most.
        of_a_namespace: Of these, so many for one namespace at most.
    """

    def __init__(self, in_all: int, of_a_namespace: int) -> None:
        self._in_all = in_all
        self._of_a_namespace = of_a_namespace
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, namespace: str) -> bool:
        """Take a place; False when there is none."""
        with self._lock:
            if self._taken.total() >= self._in_all or self._taken[namespace] >= self._of_a_namespace:
                return False
            self._taken[namespace] += 1
            return True

    def give(self, namespace: str) -> None:
        """Give it back."""
        with self._lock:
            self._taken[namespace] -= 1
            self._taken = +self._taken

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a place for the request under way.

        Raises:
            ProblemError: 503 RPL-1514 when there is none.
        """
        namespace = asking.get().namespace
        if not self.take(namespace):
            raise _too_many()
        try:
            yield
        finally:
            self.give(namespace)


async def place_for_state(request: Request) -> AsyncIterator[None]:
    """The dependency of operations that read or change a pipeline's state: such a request has one of the places for these.

    It waits for a place without a thread.

    Raises:
        ProblemError: 503 RPL-1514 when there is none for two seconds.
    """
    places: Places = request.app.state.context.state_places
    namespace = request.path_params.get("namespace", "")
    until = time.monotonic() + _PATIENCE_SECONDS
    while not places.take(namespace):
        if time.monotonic() >= until:
            raise _too_many()
        await anyio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        places.give(namespace)


def _too_many() -> ProblemError:
    return ProblemError(
        503,
        TOO_MANY,
        "too many requests wait for sources, targets and states of pipelines already",
        hint="try again in some seconds",
        headers={"Retry-After": "10"},
    )
