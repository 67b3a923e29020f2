"""What `make test` leaves out exists and is in the longer commands, and `some` takes as many cases as it says, the same ones each time."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
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


@pytest.mark.parametrize(
    ("command", "test"),
    [
        ("soak", "test_target_equals_source_after_every_stop[sqlite-delta]"),
        ("endurance", "test_a_replicator_stays_right_fast_and_small[sqlite-delta]"),
        ("test-all", "test_target_equals_source_after_every_stop"),
    ],
)
def test_a_longer_command_has_the_tests_that_are_left_out(command: str, test: str) -> None:
    made = subprocess.run(["make", "--dry-run", command], cwd=_ROOT, capture_output=True, text=True, check=True)
    words = shlex.split(next(line for line in made.stdout.splitlines() if "-m pytest" in line))
    program = next(place for place, word in enumerate(words) if word.endswith("/python"))
    settings = dict(word.split("=", 1) for word in words[:program])
    narrowed = ["tests/soak"] if command == "test-all" else []
    asked = [sys.executable, *words[program + 1 :], *narrowed, "--collect-only", "-q"]
    env = {**os.environ, **settings}
    found = subprocess.run(asked, cwd=_ROOT, env=env, capture_output=True, text=True, check=False)
    assert test in found.stdout, found.stdout + found.stderr
