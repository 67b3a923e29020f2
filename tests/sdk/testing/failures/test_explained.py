"""The tests of a suite explain their failures, and a test that a subclass leaves out stays left out."""

from __future__ import annotations

import pytest

from replicator_sdk.testing.capabilities import Capabilities
from replicator_sdk.testing.failures.explained import assert_same, at_step


class Suite(Capabilities):
    __test__ = False

    def test_it(self) -> None:
        """Both sides are equal."""
        at_step("the second")
        assert_same("left and right", "1 is not 2")


class Without(Suite):
    test_it = None  # type: ignore[assignment]


def test_the_notes_name_claim_step_and_comparison() -> None:
    with pytest.raises(AssertionError) as caught:
        Suite().test_it()
    assert caught.value.__notes__ == [
        "claim: Both sides are equal.",
        "step: the second",
        "comparison: left and right",
    ]


def test_a_test_that_is_left_out_stays_left_out() -> None:
    assert Without.test_it is None
