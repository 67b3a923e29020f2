"""A pipeline whose state was lost: where the source takes no snapshots, nothing is read over tables that an earlier run filled."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.in_memory.target import MemoryStore
from replicator_source_sqlite.plugin import SqliteSource
from tests.runtime.engine.slices.test_distributed_stream import Pair
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["shop"]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    yield Pair(tmp_path, 1)
    MemoryStore.forget(str(tmp_path))


def rows(pair: Pair) -> list[list[dict[str, Any]]]:
    return [pair.target.rows(schema.table) for schema in pair.shop.schemas]


def test_slices_are_not_begun_again_over_the_tables_of_an_earlier_run(pair: Pair) -> None:
    """The epoch does not show it: the earlier run, the first of its pipeline, had the same one."""
    pair.shop.trade(30)
    pair.run()
    state, kept = pair.shop.folder / "state", pair.shop.folder / "kept"
    shutil.move(state, kept)
    before = rows(pair)
    for _ in range(3):
        pair.shop.trade(10)
        with pytest.raises(NeedsUserError, match=r"RPL-4105.*state") as caught:
            pair.run()
        assert "put the state back" in caught.value.hint
        assert rows(pair) == before
        shutil.rmtree(state)  # else a newer run has taken the tables over at the second try
    shutil.move(kept, state)
    for _ in range(3):
        pair.run()
        pair.assert_equal()
        pair.shop.trade(10)


def test_one_stream_is_not_begun_again_over_the_tables_of_an_earlier_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the refusal the run says that it reached its end, and the rows written in between are missing."""
    monkeypatch.setattr(SqliteSource, "create_snapshot_reader", lambda *_: None)
    shop.run()
    fill(shop)
    shop.run()
    state, kept = shop.path.parent / "state", shop.path.parent / "kept"
    shutil.move(state, kept)
    shop.sql("INSERT INTO customers VALUES (90, 'in between')")
    for _ in range(3):
        with pytest.raises(NeedsUserError, match="RPL-3514"):  # the source knows that there was a state
            shop.run()
    owner = "DELETE FROM _replicator_facts WHERE name GLOB 'owner *'"
    for _ in range(3):
        shop.sql(owner)  # of a source that does not know it
        with pytest.raises(NeedsUserError, match=r"RPL-4105.*state"):
            shop.run()
    shop.sql(owner)
    shutil.rmtree(state)
    shutil.move(kept, state)
    for run in range(3):
        shop.run()
        shop.assert_equal()
        shop.sql(f"ALTER TABLE customers ADD COLUMN c{run} TEXT DEFAULT 'x'", "DELETE FROM customers WHERE id = 3")


def test_without_its_state_a_pipeline_whose_tables_are_deleted_too_begins_again(pair: Pair) -> None:
    pair.shop.trade(30)
    pair.run()
    shutil.rmtree(pair.shop.folder / "state")
    MemoryStore.forget(pair.store)
    pair.run()
    pair.assert_equal()
