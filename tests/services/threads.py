"""Work that goes on in a thread while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Let `work` go on as long as the block lasts, whose end sets the event; raises what it raised, after the block."""
    stop, errors = threading.Event(), []

    def body() -> None:
        try:
            work(stop)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(120)
    if errors:
        raise errors[0]


@contextmanager
def repeating(work: Callable[[], None], pause: float) -> Iterator[None]:
    """Call `work` again and again, with pauses of so many seconds, as long as the block lasts; raises what it raised."""

    def body(stop: threading.Event) -> None:
        while not stop.wait(pause):
            work()

    with beside(body):
        yield
