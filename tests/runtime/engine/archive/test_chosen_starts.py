"""`snapshot.from` with an archive as the source: tables begin empty and have what was archived after that position."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from replicator_sdk.errors import NeedsUserError
from tests.follows import follows
from tests.runtime.engine.archive.test_archive import archived
from tests.runtime.engine.archive.test_replays import Replay, fill
from tests.runtime.engine.test_run import Shop, shop

__all__ = ["shop"]


@pytest.fixture
def replay(shop: Shop) -> Replay:
    """Of a shop whose archive has a copy, and a row with a column that was added since."""
    archive = archived(shop)
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE customers ADD COLUMN city TEXT")
    shop.sql("INSERT INTO customers VALUES (50, 'before', 'Oslo')")
    shop.run()
    return Replay(shop, archive)


def begin(replay: Replay, **start: str) -> None:
    replay.document["snapshot"] = {"mode": "never", "from": start}


def test_tables_have_what_was_committed_after_the_time_over_three_runs(replay: Replay) -> None:
    time.sleep(1.1)
    begin(replay, time=datetime.now(UTC).isoformat())
    changes = (
        ["INSERT INTO customers VALUES (60, 'after', 'Bonn')", "UPDATE customers SET city = 'Rome' WHERE id = 50"],
        ["ALTER TABLE customers RENAME COLUMN city TO place", "INSERT INTO customers VALUES (61, 'later', 'Bern')"],
        ["DELETE FROM customers WHERE id = 60", "INSERT INTO notes VALUES ('after')"],
    )
    for statements in changes:
        replay.shop.sql(*statements)
        replay.shop.run()
        replay.run()
    assert sorted(replay.storage.rows("customers"), key=json.dumps) == [
        {"id": 50, "name": "before", "place": "Rome"},
        {"id": 61, "name": "later", "place": "Bern"},
    ]
    assert replay.storage.rows("notes") == [{"text": "after"}]


@follows("RPL-3561")
def test_a_position_of_the_form_that_a_refusal_shows_is_one(replay: Replay) -> None:
    begin(replay, offset="1200")
    with pytest.raises(NeedsUserError, match=r"RPL-3561.*120/0"):
        replay.run()
    begin(replay, offset="4/0")  # the example's number is larger than this archive's
    _assert_follows(replay)


@follows("RPL-3562")
def test_the_end_that_a_refusal_names_is_a_position(replay: Replay) -> None:
    begin(replay, offset="99/0")
    with pytest.raises(NeedsUserError, match="RPL-3562") as refused:
        replay.run()
    begin(replay, offset=refused.value.hint.split('"')[1])
    _assert_follows(replay)


def _assert_follows(replay: Replay) -> None:
    replay.shop.sql("INSERT INTO notes VALUES ('after')")
    replay.shop.run()
    replay.run()
    assert {"text": "after"} in replay.storage.rows("notes")


@follows("RPL-3563")
def test_a_table_that_cannot_begin_there_names_a_position_where_it_can(replay: Replay) -> None:
    replay.shop.sql("CREATE TABLE fresh (id INTEGER NOT NULL PRIMARY KEY)", "INSERT INTO fresh VALUES (1)")
    replay.shop.run()
    begin(replay, offset="1/0")
    with pytest.raises(NeedsUserError, match="RPL-2072") as refused:
        replay.run()
    assert "RPL-3563" in str(refused.value)
    named = str(refused.value).split('"offset": "')[1].split('"')[0]
    begin(replay, offset=named)
    replay.run()
    replay.shop.sql("INSERT INTO fresh VALUES (2)")
    replay.shop.run()
    replay.run()
    assert {"id": 2} in replay.storage.rows("fresh")
