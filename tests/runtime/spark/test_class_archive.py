"""The archive of Spark's classes: used where it fits and nothing else is asked for; jars that were fetched once are not fetched again."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.spark import session
from replicator_runtime.spark.class_archive import archive_of, archive_options, make_archive
from replicator_runtime.spark.jars import cache_folder, keep_jars, local_jars
from replicator_runtime.spark.warm_up import warm_up
from replicator_sdk.errors import NeedsUserError
from tests.end_to_end.replicator import COMMAND, Replicator
from tests.services.kafka.programs import java
from tests.services.spark.session import INTERPRETER

PACKAGE = "org.example:tables_2.13:1.2"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "java"
    program.write_text("a program")
    return program


def made(program: Path) -> Path:
    archive = archive_of(program)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_text("classes")
    return archive


def test_without_an_archive_options_stay_as_they_are(program: Path) -> None:
    assert archive_options(program, "-Xmx1g") == "-Xmx1g"


def test_an_archive_is_used_and_one_that_does_not_fit_is_not_complained_of(program: Path) -> None:
    archive = made(program)
    assert archive_options(program, "-Xmx1g").startswith(f'-Xmx1g -XX:SharedArchiveFile="{archive}" -Xlog:disable')


def test_another_java_has_another_archive(program: Path) -> None:
    made(program)
    program.write_text("another one")
    os.utime(program, ns=(1, 1))
    assert archive_options(program, "") == ""


@pytest.mark.parametrize(
    "own", ["-Xshare:off", "-XX:SharedArchiveFile=/mine.jsa", "-XX:ArchiveClassesAtExit=/mine.jsa"]
)
def test_what_the_user_decides_counts(program: Path, own: str) -> None:
    made(program)
    assert archive_options(program, own) == own


def test_the_users_own_log_options_are_left_alone(program: Path) -> None:
    made(program)
    assert archive_options(program, "-Xlog:gc").count("-Xlog") == 1


def test_a_failed_attempt_leaves_nothing_and_says_why(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[-1]).write_text("half of it")
        return subprocess.CompletedProcess(command, 1, "", "first\nno space left on device\n")

    monkeypatch.setattr(subprocess, "run", failed)
    with pytest.raises(NeedsUserError, match=r"RPL-7213.*no space left on device"):
        make_archive(program, {})
    assert [path for path in cache_folder().rglob("*") if path.is_file()] == []


def test_a_new_archive_takes_the_place_of_the_environments_former_one(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = made(program)
    other = former.with_name("classes-of-another-environment.jsa")
    other.write_text("classes")
    os.utime(program, ns=(1, 1))

    def written(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[-1]).write_text("classes")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", written)
    assert make_archive(program, {})
    assert not make_archive(program, {})
    assert sorted(former.parent.iterdir()) == sorted([archive_of(program), other])


def test_resolved_jars_are_found_without_the_repository(program: Path, tmp_path: Path) -> None:
    resolved = tmp_path / "ivy" / "jars" / "org.example_tables_2.13-1.2.jar"
    resolved.parent.mkdir(parents=True)
    resolved.write_text("classes")
    assert local_jars([PACKAGE]) is None
    packages = [PACKAGE, "org.example:missing:1.0"]
    keep_jars(packages, {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(tmp_path / "ivy")})
    found = local_jars([PACKAGE])
    assert found is not None
    assert [path.read_text() for path in found] == ["classes"]
    assert len(list((cache_folder() / "jars").iterdir())) == 1


def test_a_users_package_is_resolved_at_each_start_with_what_it_depends_on(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jar alone would be found without the jars that it needs."""
    users = "org.example:needs_others:3.4"
    resolved = tmp_path / "ivy" / "jars"
    resolved.mkdir(parents=True)
    for name in ("tables_2.13-1.2", "needs_others-3.4"):
        (resolved / f"org.example_{name}.jar").write_text("classes")
    monkeypatch.setattr(session, "_exists", lambda: False)
    monkeypatch.setattr(session, "_start", lambda *_: "session")
    conf = {"spark.jars.packages": users, "spark.jars.ivy": str(tmp_path / "ivy")}
    session.build_session("shop", conf=conf, packages=[PACKAGE])
    assert local_jars([PACKAGE]) is not None
    assert session.session_settings(conf=conf, packages=[PACKAGE])["spark.jars.packages"] == f"{PACKAGE},{users}"


def test_warm_up_says_what_is_there(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def make(_: Path, settings: dict[str, str]) -> bool:
        seen.append(settings)
        return True

    monkeypatch.setattr("replicator_runtime.spark.warm_up.make_archive", make)
    done = warm_up(master="local[*]", conf={"spark.x": "y"}, packages=(), cores=None, memory_mb=None)
    assert (done.is_new, done.jars, seen[0]["spark.x"]) == (True, (), "y")


def test_a_run_after_a_warm_up_has_its_classes_from_the_archive(tmp_path: Path) -> None:
    """The archive of `make servers`, which `warm-up` finds there already."""
    assert archive_of(Path(java())).is_file(), "make servers"
    loaded = tmp_path / "loaded"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)")
    conf = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"}
    replicator = Replicator(
        tmp_path, ("sqlite", {"path": str(tmp_path / "shop.db")}), settings={"spark": {"conf": conf}}
    )
    document = json.dumps(replicator.document())
    (tmp_path / "pipeline.json").write_text(document)

    def command(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*COMMAND, *words, "--json"],
            cwd=tmp_path,
            env={**os.environ, **INTERPRETER},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)["data"]
        return found

    warm = command("warm-up", "pipeline.json")
    assert warm["made"] is False
    assert all(Path(jar).is_file() for jar in warm["jars"])
    command("run", "pipeline.json", "--until-current")
    lines = loaded.read_text().splitlines()
    shared = [line for line in lines if "shared objects file (top)" in line]
    assert len(shared) > 0.3 * len(lines), f"{len(shared)} of {len(lines)}"
