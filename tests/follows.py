"""Marks tests that follow the advice of an error: `tests/docs/next_steps/test_followed_steps.py` counts them."""

from __future__ import annotations

import pytest


def follows(*codes: str) -> pytest.MarkDecorator:
    """A mark for a test that provokes each of these errors for real, does what its "Next:" says, and shows that all is right after.

    A command may be given to the command line, or to the function that it calls.
    """
    return pytest.mark.follows(*codes)
