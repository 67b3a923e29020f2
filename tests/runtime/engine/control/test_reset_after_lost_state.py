"""After a lost or an old state another generation is above every run that the target knows; a missing table is looked for again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.control.reset import reset
from replicator_sdk.errors import NeedsUserError
from replicator_state import OutcomeState, ReplicatorDirectory
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Host, Shop, fill, shop

__all__ = ["shop"]


def state(shop: Shop) -> Path:
    return Path(shop.document["offsetBasePath"])


def begin_again(shop: Shop) -> int:
    return reset(build_pipeline(shop.document, host=Host()), state_was_lost=True)  # type: ignore[arg-type]


def written_by(shop: Shop) -> tuple[int, int]:
    """The highest generation and epoch that the target knows."""
    known = [kept.progress for kept in in_memory_target.STORAGE.tables.values() if kept.progress is not None]
    return max(one.generation for one in known), max(one.epoch for one in known)


def test_each_one_is_above_all_that_the_target_knows(shop: Shop) -> None:
    fill(shop)
    for _ in range(4):
        shop.sql("INSERT INTO notes VALUES ('more')")
        shop.run()
    state_was_begun = False
    for old in (False, True, False):
        before, kept = written_by(shop), state(shop).with_name("kept")
        shutil.copytree(state(shop), kept)
        shop.sql("INSERT INTO notes VALUES ('after the copy')")
        shop.run()
        shutil.rmtree(state(shop))
        if old:
            kept.rename(state(shop))
        else:
            shutil.rmtree(kept)
        number = begin_again(shop)
        if not state_was_begun:  # later ones come within the same minute
            assert number > before[0]
        state_was_begun = True
        for later in range(3):
            shop.sql(f"INSERT INTO notes VALUES ('{later}')")
            shop.run()
            shop.assert_equal()
            assert written_by(shop)[1] > before[1]
        assert written_by(shop)[0] == number


def test_without_the_word_nothing_is_begun_where_nothing_is_stored(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shutil.rmtree(state(shop))
    with pytest.raises(NeedsUserError, match=r"RPL-1231.*--lost-state"):
        reset(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]
    assert not state(shop).exists()


def test_a_table_that_the_source_lacks_is_looked_for_again(shop: Shop) -> None:
    fill(shop)
    shop.run()
    shop.document["tables"] = [{"table": "customers"}, {"table": "notes"}, {"table": "later"}]
    requests = ReplicatorDirectory(str(state(shop)), "default", "shop").requests()
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    for names, code in (
        (["later", "customers"], "RPL-1221"),
        (["unheard_of"], "RPL-1220"),
        (["main.later"], "RPL-1220"),
    ):
        request = requests.submit("table.retry", {"tables": names})
        carry_out_alone(pipeline)
        outcome = requests.outcome(request.request_id)
        assert outcome is not None
        assert outcome.code == code
    request = requests.submit("table.retry", {"tables": ["later"]})
    carry_out_alone(pipeline)
    outcome = requests.outcome(request.request_id)
    assert outcome is not None
    assert (outcome.state, len(outcome.lines)) == (OutcomeState.DONE, 1)
    shop.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)", "INSERT INTO later VALUES (1)")
    shop.run()
    shop.assert_equal("customers", "notes", "later")
