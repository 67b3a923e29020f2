"""A run knows from its beginning what the source may forget, also one that is too short to save twice."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_runtime.engine.run_state.run import Run
from replicator_sdk import Offset
from tests.runtime.engine.test_run import Shop, fill, shop

__all__ = ["shop"]


def test_a_run_begins_with_the_offset_that_earlier_runs_committed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, tuple[Offset | None, Offset | None]] = {}
    load = Run.load_offset

    def noted(run: Run, *more: Any) -> None:
        load(run, *more)
        found.setdefault(run.run_id, (run.committed_offset, run.saved_offset))

    monkeypatch.setattr(Run, "load_offset", noted)
    for start in range(0, 60, 20):
        fill(shop, start)
        shop.run()
    first, second, third = found.values()
    assert first == (None, None)
    # A run stores what it begins with once more, so that the offset stays when a file is damaged.
    assert [committed for committed, _ in (second, third)] == [saved for _, saved in (second, third)]
    assert second[0] < third[0]  # type: ignore[operator]
