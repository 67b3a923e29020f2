"""Marks tests that follow the advice of an error: `tests/docs/next_steps/test_followed_steps.py` counts them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import pytest

_COMMAND = re.compile(r"`replicator ([^`]+)`")
_TO_FILL_IN = {"NAME", "PIPELINE", "TABLE", "ID"}


def follows(*codes: str) -> pytest.MarkDecorator:
    """A mark for a test that provokes each of these errors for real, does what its "Next:" says, and shows that all is right after.

    A command may be given to the command line, or to the function that it calls.
    """
    return pytest.mark.follows(*codes)


def advised(steps: Iterable[str], command: str, options: Sequence[str] = ()) -> list[str]:
    """The words of the one command in printed next steps that begins with `command`; nothing is left in it to fill in.

    Args:
        steps: What is printed.
        command: Such as `table resync`.
        options: Where several commands begin so, the one with these words is meant.
    """
    found = {text for step in steps for text in _COMMAND.findall(step) if f"{text} ".startswith(f"{command} ")}
    found = {text for text in found if set(options) <= set(text.split())} or found
    assert len(found) == 1, (command, steps)
    words = shlex.split(found.pop())
    assert not _TO_FILL_IN & set(words), words
    return words
