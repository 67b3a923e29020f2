"""In a process that a service starts, a pipeline uses no file of the service itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_runtime.files_of_service import SERVICE_FILES, service_files
from tests.runtime.config.conftest import Build, pipeline, problems_of

PLACE = "stages[0].plugin.properties.path"
OWN = "this is a file of the service itself"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which such a process works; the service's database is beside it."""
    work = tmp_path / "work"
    (work / "pipelines").mkdir(parents=True)
    (tmp_path / "service.db").touch()
    (work / "inner.db").touch()
    monkeypatch.setenv(SERVICE_FILES, service_files([work, tmp_path / "service.db"], None))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE", str(tmp_path / "service.db"))
    monkeypatch.chdir(work)
    return work


@pytest.mark.parametrize(
    "path",
    [
        "${env(DATABASE)}",
        "../service.db",
        "inner.db",
        "~/service.db",
        "file://${env(DATABASE)}",
        "simplecache::file://${env(DATABASE)}",
        "../x/../service.db",
        "../link",
        "${env(HOME)}/work/pipelines/new.json",
    ],
)
def test_the_services_own_files_are_refused_when_macros_have_their_values(
    build: Build, work: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "service.db")
    found = problems_of(build, pipeline({"path": path}))
    assert found[PLACE].startswith(OWN)
    assert str(tmp_path) not in found[PLACE]


@pytest.mark.parametrize("path", ["${env(HOME)}/shop.db", "pipelines", "db.internal", "public/orders", "s3://work/x"])
def test_other_files_and_names_are_not(build: Build, work: Path, path: str) -> None:
    build(pipeline({"path": path}))


def test_an_archive_is_not_written_there(build: Build, work: Path) -> None:
    found = problems_of(build, pipeline({"path": "/shop.db"}) | {"archive": {"path": "${env(HOME)}/work/archive"}})
    assert found["archive.path"].startswith(OWN)


def test_files_are_below_the_folders_that_the_service_allows(
    build: Build, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVICE_FILES, service_files([work], [tmp_path / "data"]))
    build(pipeline({"path": str(tmp_path / "data" / "shop.db")}))
    for path in ("${env(HOME)}/data/../shop.db", "/etc/passwd", "../service.db"):
        assert "below some folders" in problems_of(build, pipeline({"path": path}))[PLACE]


def test_without_a_service_every_file_may_be_used(build: Build, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVICE_FILES)
    build(pipeline({"path": "${env(DATABASE)}"}))
