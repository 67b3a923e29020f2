"""The session has what pipeline and plugins ask for, fits the machine, and shows no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_runtime.observability import redaction
from replicator_runtime.spark import java
from replicator_runtime.spark.jars import cache_folder, local_jars
from replicator_runtime.spark.java import java_version, require_java
from replicator_runtime.spark.pools import pool_settings
from replicator_runtime.spark.session import session_settings
from replicator_sdk.errors import ConfigError, NeedsUserError
from tests.services.artifacts import DELTA, delta_jars
from tests.services.spark import kept_java
from tests.services.spark.session import DELTA as DELTA_SETTINGS
from tests.services.spark.session import JAVA_OPTIONS

PACKAGES = [f"{a.group}:{a.name}:{a.version}" for a in DELTA]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    yield
    redaction.redactor().forget()


def test_a_local_session_listens_on_loopback_only_without_pages_and_is_sized_for_the_machine() -> None:
    settings = session_settings()
    cores = len(os.sched_getaffinity(0))
    assert settings["spark.master"] == f"local[{cores}]"
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.sql.shuffle.partitions"] == str(cores)
    assert 1024 <= int(settings["spark.driver.memory"].removesuffix("m")) <= 4096
    assert settings["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("master", "cores", "expected"),
    [
        ("local[*]", 3, "local[3]"),
        ("local", None, None),
        ("local[2]", 7, "local[2]"),
        ("local[2,4]", None, "local[2,4]"),
        ("spark://h:7077", 3, "spark://h:7077"),
        ("yarn", None, "yarn"),
    ],
)
def test_the_number_of_cores_in_the_master_wins_over_the_wish(
    master: str, cores: int | None, expected: str | None
) -> None:
    found = session_settings(master=master, cores=cores)["spark.master"]
    assert found == (expected or f"local[{len(os.sched_getaffinity(0))}]")


def test_on_a_cluster_nothing_is_sized_and_the_pages_stay() -> None:
    assert session_settings(master="yarn") == {
        **pool_settings(),
        "spark.master": "yarn",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "WARN",
    }
    assert session_settings(master="yarn", memory_mb=3000)["spark.driver.memory"] == "3000m"


def test_the_pipelines_own_settings_win() -> None:
    own = {"spark.driver.memory": "9g", "spark.ui.enabled": "true", "spark.sql.session.timeZone": "UTC"}
    settings = session_settings(conf=own, memory_mb=1234)
    assert own.items() <= settings.items()


def test_packages_come_from_the_cache_when_all_are_there_else_spark_resolves_all(tmp_path: Path) -> None:
    jars = ",".join(map(str, delta_jars()))
    assert session_settings(packages=PACKAGES)["spark.jars"] == jars
    assert session_settings(packages=PACKAGES, conf={"spark.jars": "/x.jar"})["spark.jars"] == f"/x.jar,{jars}"
    settings = session_settings(packages=[*PACKAGES, "a.b:c:1"], conf={"spark.jars.packages": f"d:e:2, {PACKAGES[0]}"})
    assert settings["spark.jars.packages"] == ",".join([*PACKAGES, "a.b:c:1", "d:e:2"])
    assert "spark.jars" not in settings
    assert settings["spark.jars.ivy"] == str(cache_folder() / "ivy")
    ivy = str(tmp_path / "mine" / "ivy")
    assert session_settings(packages=["a.b:c:1"], conf={"spark.jars.ivy": ivy})["spark.jars.ivy"] == ivy


@pytest.mark.parametrize("package", ["a:b", "a:b:c:d", "a:b:../../x", "a/b:c:1", "::"])
def test_what_is_no_coordinate_is_refused(package: str) -> None:
    with pytest.raises(ConfigError, match="RPL-7205"):
        local_jars([package])


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert local_jars(["a.b:c:1"]) is None
    jar = tmp_path / "replicator/jars/c-1.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    assert local_jars(["a.b:c:1"]) == [jar]


def test_a_folder_of_downloads_that_cannot_be_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NeedsUserError, match=r"RPL-7215.*may not write"):
        session_settings(packages=["a.b:c:1"], conf={"spark.jars.ivy": str(tmp_path / "file" / "ivy")})
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # an account that the user database does not have
    with pytest.raises(NeedsUserError, match=r"RPL-7215.*no home folder"):
        session_settings()


def test_under_spark_submit_its_master_and_jars_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    settings = session_settings(packages=PACKAGES)
    assert not {"spark.master", "spark.jars", "spark.jars.packages"} & settings.keys()


@pytest.mark.parametrize("value", ["s3cr3t/x", "jdbc:x?p=s3cr3t%2Fx"])
def test_a_setting_that_holds_a_registered_secret_is_refused_by_name(value: str) -> None:
    redaction.register_secret("s3cr3t/x")
    with pytest.raises(NeedsUserError, match=r"RPL-7203.*spark\.hadoop\.x") as caught:
        session_settings(conf={"spark.hadoop.x": value})
    assert value not in str(caught.value)


def test_without_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NeedsUserError, match=r"RPL-7201.*apt-get install openjdk-17"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NeedsUserError, match="JAVA_HOME"):
        require_java()


@pytest.mark.parametrize(
    ("release", "version"), [('JAVA_VERSION="17.0.15"', 17), ('JAVA_VERSION="1.8.0_402"', 8), ('JAVA_VERSION="21"', 21)]
)
def test_an_old_java_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, version: int
) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\n{release}\n')
    assert java_version(binary) == version
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if version < java.OLDEST:
        with pytest.raises(NeedsUserError, match=f"Java {version}"):
            require_java()
    else:
        assert require_java() == binary


def test_this_machines_java_is_found() -> None:
    version = java_version(require_java())
    assert version is not None
    assert version >= java.OLDEST


LIFE = """
import json, os, sys, psutil, threading, time
begun = time.monotonic()
from replicator_runtime.spark.session import build_session, stop_session
from replicator_sdk.errors import ReplicatorError
packages, conf, folder = json.loads(sys.argv[1])
found = {}
def code(**wishes):
    try:
        build_session("t", memory_mb=1024, **wishes)
    except ReplicatorError as error:
        return str(error).splitlines()[0]
def java():
    return [p for p in psutil.Process().children(recursive=True) if "java" in p.name()]
found["bogus"] = code(master="bogus")
found["after a failed start"] = len(java())
session = build_session("t", master="local[1]", packages=packages, conf=conf, memory_mb=1024)
session.range(5).write.format("delta").save(folder)
found["started"] = time.monotonic() - begun
session.range(1).selectExpr(*[f"id AS c{n}" for n in range(60)])._jdf.queryExecution().toString()
found["delta"] = session.read.format("delta").load(folder).count()
def on_executor(batches):
    import replicator_sdk.schema
    import pyarrow as pa
    for batch in batches:
        yield pa.record_batch({"exe": [sys.executable] * len(batch)})
def in_environment(batches):
    import os
    import pyarrow as pa
    for batch in batches:
        yield pa.record_batch({"name": pa.array([name for name in os.environ if "SECRET_" in name], pa.string())})
found["executor"] = session.range(1).mapInArrow(on_executor, "exe string").first()["exe"]
found["secrets"] = [name for p in java() for name in p.environ() if "SECRET_" in name]
found["secrets"] += session.range(1).mapInArrow(in_environment, "name string").toPandas()["name"].tolist()
found["kept"] = os.environ["REPLICATOR_SECRET_SHOP"]
found["listening"] = sorted({c.laddr.ip for p in java() for c in p.net_connections() if c.status == "LISTEN"})
again = []
other = threading.Thread(target=lambda: again.append(build_session("u", conf=conf, memory_mb=1024)))
other.start(); other.join()
found["same"] = again[0].sparkContext is session.sparkContext
found["unfit"] = code(conf={"spark.sql.extensions": "x.Y"})
before = time.monotonic()
stop_session(session); stop_session(session)
found["end"] = time.monotonic() - before
found["left"] = len(java())
found["scratch"] = [name for name in os.listdir(os.environ["TMPDIR"]) if "spark" in name.lower()]
logged = build_session("t", master="local[1]", memory_mb=1024, conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:" + os.environ["TMPDIR"], "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"})
logged.range(5).count()
stop_session(logged)
found["left"] += len(java())
print(json.dumps(found))
"""


def test_the_life_of_a_session_in_a_process(tmp_path: Path) -> None:
    """Starts with jars of the cache, runs Python on executors, is found again from other threads, leaves nothing."""
    arguments = json.dumps(
        [PACKAGES, {**DELTA_SETTINGS, "spark.databricks.delta.snapshotPartitions": "1"}, str(tmp_path / "table")]
    )
    environment = {**os.environ, **JAVA_OPTIONS, "TMPDIR": str(tmp_path), "REPLICATOR_SECRET_SHOP": "correct horse"}
    done = subprocess.run(
        [sys.executable, "-c", LIFE, arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["bogus"].startswith("RPL-7204: Spark did not start")
    assert found["after a failed start"] == 0
    assert found["delta"] == 5
    assert found["executor"] == sys.executable
    assert [ip.removeprefix("::ffff:") for ip in found["listening"]] == ["127.0.0.1"]
    assert (found["secrets"], found["kept"]) == ([], "correct horse")
    assert found["same"] is True
    assert found["unfit"].startswith("RPL-7206")
    assert found["left"] == 0
    assert found["scratch"] == []
    (events,) = tmp_path.glob("local-*")
    assert '"Event":"SparkListenerApplicationEnd"' in events.read_text(), "what has to be written at the end is"
    assert "local lookup" not in done.stderr.lower(), "nothing was resolved"
    assert "Master must either be" in done.stderr, "why Spark did not start is on the terminal"
    assert not [
        line for line in done.stderr.splitlines() if "incubator" in line or "log4j" in line or "log level" in line
    ]
    assert not [name for name in ("NativeCodeLoader", "Truncated the string", "EOFError") if name in done.stderr]
    left = {path.name for path in tmp_path.iterdir()} - {"table", events.name}
    assert not {name for name in left if "warehouse" in name or "metastore" in name or "derby" in name}, left


SUBMITTED = """
from replicator_runtime.spark.session import build_session, stop_session
for _ in range(2):
    session = build_session("t")
    print(session.range(3).count())
    stop_session(session)
"""


def test_under_spark_submit_one_session_follows_another() -> None:
    """As those of a comparison and of the repair after it do: the virtual machine stays, its context is ended."""
    java = kept_java.take()
    done = subprocess.run(
        [sys.executable, "-c", SUBMITTED],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **java.variables()},
    )
    java.give_back(done.returncode)
    assert done.stdout.split() == ["3", "3"], done.stderr[-3000:]
