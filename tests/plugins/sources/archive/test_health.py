"""An archive says what waits in it, for how long, and how late it is itself; a place that is not there does not answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_source_archive.config import ArchiveConfig
from replicator_source_archive.folder import ArchiveFolder
from replicator_source_archive.health import ArchiveHealthProbe
from replicator_source_archive.manifests import Manifests
from replicator_source_archive.offset import ArchiveOffset
from replicator_source_archive.plugin import ArchiveSource
from tests.plugins.sources.archive.source_system import ArchiveSystem
from tests.runtime.engine.test_run import Shop, shop

__all__ = ["shop"]
_PLACE = {"namespace": "default", "name": "again"}
_TABLE = {"database": "main", "schema": "", "table": "notes"}


def _changes(rows: int, **more: Any) -> Mapping[str, Any]:
    return {
        "kind": "changes",
        "table": _TABLE,
        "rows": rows,
        "bytes": 10 * rows,
        "files": [],
        "committedAt": -1,
        **more,
    }


def _probe(system: ArchiveSystem) -> ArchiveHealthProbe:
    return ArchiveHealthProbe(Manifests(ArchiveFolder(str(system.path))))


def test_what_a_pipeline_has_archived_waits_until_it_is_read_and_is_there_for_its_keep_days(shop: Shop) -> None:
    path = shop.path.parent / "archive"
    shop.document["archive"] = {"path": str(path), "keepDays": 2}
    shop.sql("INSERT INTO notes VALUES ('a')")
    shop.run()
    source = ArchiveSource(ArchiveConfig(path=str(path)))
    offset, before = source.latest_offset(), set(path.rglob("*.parquet"))
    shop.sql("INSERT INTO notes VALUES ('b'), ('c')", "DELETE FROM notes WHERE text = 'a'")
    shop.run()
    found = source.health(offset, **_PLACE)
    assert found is not None
    new = set(path.rglob("*.parquet")) - before
    assert (found.waiting_changes, found.waiting_bytes) == (3, sum(file.stat().st_size for file in new))
    assert found.retention_seconds == 172_800.0
    assert found.seconds_left == pytest.approx(172_800, abs=300)
    assert found.limited_by == "archive.keepDays of the pipeline that writes the archive"
    read = source.health(source.latest_offset(), **_PLACE)
    assert read is not None
    assert (read.waiting_changes, read.waiting_bytes, read.seconds_left) == (0, 0, None)
    assert read.late_seconds is not None
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(NeedsUserError, match="RPL-3552"):
        source.health(offset, **_PLACE)


def test_an_archive_is_as_late_as_its_newest_manifest_says_until_no_more_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = ArchiveSystem(tmp_path / "archive")
    with closing(_probe(system)) as probe:
        assert probe.ask(ArchiveOffset(1)).late_seconds is None
        system.add(_changes(1, committedAt=int((time.time() - 3600) * 1e6)))
        late = probe.ask(ArchiveOffset(2))
        assert late.late_seconds == pytest.approx(3600, abs=10)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 121)
        quiet = probe.ask(ArchiveOffset(2))
        assert quiet.late_seconds is None, "its pipeline has nothing more, or does not run"
        system.add({"kind": "end", "table": _TABLE})
        newest = probe.ask(ArchiveOffset(2))
        assert (newest.waiting_changes, newest.late_seconds) == (1, None)


def test_each_manifest_is_read_once_and_no_more_than_some_hundred_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = ArchiveSystem(tmp_path / "archive")
    read: list[int] = []
    for _ in range(300):
        system.add(_changes(2))
    really = Manifests.read

    def counted(self: Manifests, number: int) -> Any:
        read.append(number)
        return really(self, number)

    monkeypatch.setattr(Manifests, "read", counted)
    with closing(_probe(system)) as probe:
        answers = [probe.ask(ArchiveOffset(1)) for _ in range(3)]
        assert [answer.waiting_changes for answer in answers] == [386, 600, 600]
        assert (sorted(set(read)), len(read)) == (list(range(1, 302)), 302), "the next one is looked for again"
        later = probe.ask(ArchiveOffset(300, 0))
        assert (later.waiting_changes, later.waiting_bytes) == (2, 20)
        assert probe.ask(ArchiveOffset(301)).waiting_changes == 0
