"""A change archive has every row and change once, whichever step of its writing a run is killed at."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from tests.crash import kill_points
from tests.crash.command import COMMAND as WITHOUT
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.database import TABLES
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND
from tests.runtime.engine.archive.rebuilt import listed, rebuilt
from tests.services.s3.server import S3Server


def archived(pair: Pair) -> Path:
    """Give the pair an archive, which is written when a run ends or has some bytes."""
    path = pair.replicator.folder / "archive"
    pair.replicator.settings = {**pair.replicator.settings, "archive": {"path": str(path), "flushSeconds": 0}}
    return path


def assert_archived(pair: Pair, archive: Path) -> None:
    """The archive gives the source's rows, and has no file of changes that no manifest names; those of a copy that was cut off may stay."""
    assert pair.differences() == {}
    tables = rebuilt(archive)
    for table in TABLES:
        assert tables[table].names == pair.database.columns(table)
        assert tables[table].bag() == pair.database.rows(table), table
    found = {str(path.relative_to(archive)) for path in archive.rglob("*.parquet")}
    assert found >= listed(archive)
    assert not [name for name in found - listed(archive) if "/copies/" not in name]


@pytest.mark.parametrize("point", sorted(kill_points.OF_ARCHIVES))
def test_three_runs_after_a_kill_have_every_change_once_in_the_archive(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    archive = archived(pair)
    if point in kill_points.OF_ARCHIVED_COPIES:
        pair.kill_at(point)
    pair.run_until_current()
    assert_archived(pair, archive)
    pair.change_everything()
    if point != "engine.archive.copied":  # no change leads there
        pair.kill_at(point)
    for _ in range(3):
        pair.change_rows()
        pair.change_structure()
        pair.run_until_current()
        assert_archived(pair, archive)


@pytest.mark.parametrize("point", ["engine.archive.staged", "engine.archive.files_written"])
def test_an_archive_that_is_continued_as_a_kill_left_it_has_too_much(point: str, make_pair: MakePair) -> None:
    """The twin."""
    pair = make_pair()
    archive = archived(pair)
    pair.run_until_current()
    pair.change_rows()
    pair.kill_at(point)
    pair.change_rows()
    [removed] = kill_points.PARTS_OF_ARCHIVES
    pair.replicator.command = (*WITHOUT, removed)
    pair.run_until_current()
    pair.replicator.command = COMMAND
    assert pair.differences() == {}
    with pytest.raises(AssertionError):
        assert_archived(pair, archive)


def test_an_archive_on_s3_has_what_spark_copied_into_delta(
    make_pair: MakePair, s3_bucket: str, s3_server: S3Server, tmp_path: Path
) -> None:
    pair = make_pair(delta=True)
    pair.replicator.environment = {**pair.replicator.environment, **s3_server.environment}
    place = f"s3://{s3_bucket}/archive"
    pair.replicator.settings = {**pair.replicator.settings, "archive": {"path": place}}
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "chunkRows": 40})
    pair.run_until_current()
    pair.change_everything()
    pair.run_until_current()
    fsspec.filesystem("s3").get(place, str(tmp_path / "archive"), recursive=True)
    assert_archived(pair, tmp_path / "archive")
