"""Interrupts a call at a chosen line of a plugin, as the end of the process would."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Place = tuple[str, int]


class Interruption(BaseException):
    """Raised at a line of the plugin; no handler of `Exception` catches it."""


def lines_of(plugin: type, call: Callable[[], object]) -> list[Place]:
    """The lines of the plugin that the call executes in this thread, each once, in order.

    Args:
        plugin: A class of the plugin: the lines of its top-level package count (of a class of this SDK, its module's).
        call: What to run.
    """
    found: dict[Place, None] = {}
    with traced(plugin, found.setdefault):
        call()
    return list(found)


def interrupted_at(plugin: type, place: Place, call: Callable[[], object]) -> bool:
    """Run the call until it comes to `place` for the first time; returns whether it came there."""

    def stop(here: Place) -> None:
        if here == place:
            raise Interruption

    gc.freeze()  # what was there before the call is not looked at after it: in a large process that takes a second
    try:
        try:
            with traced(plugin, stop):
                call()
        except Interruption:
            pass
        else:
            return False
        gc.collect()  # what the call had open ends with it, as files and connections end with a process
        return True
    finally:
        gc.unfreeze()


@contextmanager
def traced(plugin: type, visit: Callable[[Place], object]) -> Iterator[None]:
    """Calls `visit` before each line of the plugin in this thread."""
    own = _names(plugin.__module__)

    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            visit((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: FrameType, *_: object) -> Any:
        return local if own(frame.f_globals.get("__name__", "")) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _names(module: str) -> Callable[[str], bool]:
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:
        return lambda name: name == module
    return lambda name: name.partition(".")[0] == package
