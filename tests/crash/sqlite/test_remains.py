"""What a killed copy of a table leaves in Delta's folder is deleted also when the table never returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.kills import harms
from tests.crash.orphans import unnamed_files
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair

_OTHERS = [{"table": "customer"}, {"table": "note"}]
pytestmark = pytest.mark.timeout(600)


def killed_beside_a_copy(pair: Pair, point: str, **source: int) -> None:
    """A pair whose run died while it copied a third table into new files."""
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], **source})
    pair.run_until_current()
    pair.database.run(
        "CREATE TABLE extra (id INTEGER PRIMARY KEY)", "INSERT INTO extra SELECT DISTINCT id FROM customer"
    )
    pair.kill_at(point)
    assert unnamed_files(extra(pair))


def extra(pair: Pair) -> Path:
    """The folder of the third table at the target."""
    return pair.replicator.lake / "main" / "extra"


def select_others(pair: Pair) -> None:
    """Take the third table out of the pipeline."""
    pair.replicator.settings = {**pair.replicator.settings, "tables": _OTHERS}


def drop(pair: Pair) -> None:
    """Drop the third table at the source."""
    pair.database.run("DROP TABLE extra")


@pytest.mark.parametrize("leave", [select_others, drop])
def test_a_killed_first_copy_of_a_table_that_never_returns_leaves_no_files(
    leave: Callable[[Pair], None], make_pair: MakePair
) -> None:
    pair = make_pair(delta=True)
    killed_beside_a_copy(pair, "delta.snapshot.whole_written")
    leave(pair)
    twin = make_pair(delta=True, like=pair, removed="remains", name="twin")
    twin.replicator.settings = pair.replicator.settings
    twin.run_until_current()
    assert unnamed_files(extra(twin))
    harms.append("remains")
    pair.kill_at("engine.remains.discarded")
    pair.run_until_current()
    assert sorted(path.name for path in extra(pair).parent.iterdir()) == ["customer", "note"]
    if leave is drop:
        pair.assert_recovered()


def test_a_killed_copy_in_steps_leaves_only_the_files_that_it_has_committed(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    killed_beside_a_copy(pair, "delta.snapshot.files_written", chunkRows=40)
    drop(pair)
    pair.run_until_current()
    assert (extra(pair) / "_delta_log").exists()
    assert unnamed_files(extra(pair)) == []
