"""Work that goes on in a thread while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(work: Callable[[], None], pause: float) -> Iterator[None]:
    """Call `work` again and again, with pauses of so many seconds, as long as the block lasts; raises what it raised."""
    stop, errors = threading.Event(), []

    def body() -> None:
        try:
            while not stop.wait(pause):
                work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    if errors:
        raise errors[0]
