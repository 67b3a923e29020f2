"""What `make test` leaves out exists, and `some` takes as many cases as it says, the same ones each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import depth

_ROOT = Path(__file__).parents[2]


def test_every_test_that_is_left_out_exists() -> None:
    """Those of the conformance kit are defined in the SDK."""
    kit = "\n".join(path.read_text() for path in (_ROOT / "sdk" / "replicator_sdk" / "testing").rglob("*.py"))
    gone = []
    for test in depth.costly_tests():
        path, *_, name = test.split("::")
        own = (_ROOT / path).read_text() if (_ROOT / path).is_file() else ""
        if not own or f"def {name}(" not in own + kit:
            gone.append(test)
    assert gone == []


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 15])
def test_some_cases_are_as_many_as_asked_for_and_in_their_order(
    size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth, "ALL_CASES", False)
    cases = list(range(size))
    for name in ("one", "another", "a third"):
        chosen = list(depth.some(cases, most, name=name))
        assert len(chosen) == min(size, most)
        assert chosen == sorted(chosen)
        assert chosen == depth.some(cases, most, name=name)
    monkeypatch.setattr(depth, "ALL_CASES", True)
    assert depth.some(cases, most, name="one") == cases
