"""A named place of the program that a test reaches, and leaves when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from replicator_sdk import failpoint

_SECONDS = 120.0


@dataclass(frozen=True)
class HeldPoint:
    """A failpoint whose first pass waits.

    Attributes:
        name: The failpoint.
    """

    name: str
    _reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Wait until a thread is there."""
        assert self._reached.wait(_SECONDS), f"{self.name} is not reached"

    def release(self) -> None:
        """Have that thread go on."""
        self._released.set()

    def hold(self, _: float) -> None:
        """What the thread does there."""
        self._reached.set()
        assert self._released.wait(2 * _SECONDS), f"{self.name} is not released"


@contextmanager
def held_at(name: str) -> Iterator[HeldPoint]:
    """Within the block the first thread that passes `name` waits until it is released, at the block's end if not before."""
    point = HeldPoint(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoint, "time", SimpleNamespace(sleep=point.hold))
        failpoint.arm(f"{name}=delay:1")
        try:
            yield point
        finally:
            failpoint.arm("")
            point.release()
