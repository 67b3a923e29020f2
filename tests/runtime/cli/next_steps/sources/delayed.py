"""A delay at a named point of the code, in which another program or session does something."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from replicator_sdk import failpoint
from tests.waits import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SECONDS = 600.0


@contextmanager
def meanwhile(point: str, act: Callable[[], object], seconds: float = 3) -> Iterator[None]:
    """Have another thread act once the block passes a failpoint, which takes so long.

    Raises:
        Exception: What `act` raised.
    """
    failed: list[Exception] = []

    def wait() -> None:
        try:
            until(lambda: failpoint.passes(point) > 0, seconds=_SECONDS)
            act()
        except Exception as error:  # noqa: BLE001 - given to the block's thread
            failed.append(error)

    failpoint.arm(f"{point}=delay:{seconds}")
    other = threading.Thread(target=wait)
    other.start()
    try:
        yield
    finally:
        other.join()
        failpoint.arm("")
    if failed:
        raise failed[0]
