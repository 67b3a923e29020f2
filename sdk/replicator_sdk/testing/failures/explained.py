"""Adds to a failing claim what it claims, the step it was at and what it compared, as notes of the error."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NO_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception, KeyboardInterrupt, SystemExit, GeneratorExit)


class _Trail:
    """Where the test of this process is; tests run one after another."""

    step = ""
    compared = ""


def at_step(text: str) -> None:
    """From here on the test is at the step `text`; in any thread of the test."""
    _Trail.step, _Trail.compared = text, ""


@contextmanager
def step_kept() -> Iterator[None]:
    """Afterwards the test is at the step at which it was before the block."""
    kept = _Trail.step, _Trail.compared
    try:
        yield
    finally:
        _Trail.step, _Trail.compared = kept


@contextmanager
def comparing(text: str) -> Iterator[None]:
    """Names what the block compares, for the case that it fails."""
    try:
        yield
    except BaseException:
        _Trail.compared = _Trail.compared or text
        raise


def assert_same(compared: str, difference: str) -> None:
    """Fails when there is a difference.

    Args:
        compared: What was compared with what.
        difference: In words; empty when there is none.

    Raises:
        AssertionError: With both.
    """
    with comparing(compared):
        assert not difference, f"{compared} differ: {difference}"


def explained(test: Callable[..., None]) -> Callable[..., None]:
    """The test, whose errors have notes: the claim (its docstring), the last step, and what was compared."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        at_step("the beginning")
        try:
            test(*args, **kwargs)
        except _NO_FAILURES:
            raise
        except BaseException as error:
            for note in _notes(test, error):
                error.add_note(note)
            raise

    return run


def _notes(test: Callable[..., None], error: BaseException) -> list[str]:
    claim = " ".join((inspect.getdoc(test) or test.__name__).split())
    lines = str(error).strip().splitlines()
    compared = _Trail.compared or (lines[0] if lines else type(error).__name__)
    return [f"claim: {claim}", f"step: {_Trail.step}", f"comparison: {compared}"]
