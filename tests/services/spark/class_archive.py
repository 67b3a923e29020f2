"""An archive of the classes that Spark and Delta load, with which each of the tests' virtual machines starts seconds sooner.

The archive is one of Java's own (class data sharing). It is made once on a machine, by `python -m
tests.services.spark.class_archive`, which `make servers` runs; where it is missing or does not fit, Java goes on without.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from contextlib import closing
from functools import cache
from pathlib import Path

import pyspark

from tests.services.artifacts import cache_folder
from tests.services.kafka.programs import java
from tests.services.processes import ServerError

QUIET = "-Xlog:disable -Xlog:all=error:stderr"


@cache
def archive() -> Path:
    """Where the classes are kept; another Java or other jars of Spark have another place.

    So have the same jars, installed again: Java takes no archive that is older than they are, and goes on without it in silence.
    """
    program = Path(java())
    found = ((jar.name, jar.stat()) for jar in (Path(pyspark.__file__).parent / "jars").iterdir())
    jars = sorted((name, about.st_size, about.st_mtime_ns) for name, about in found)
    parts = f"{program.resolve()} {program.stat().st_mtime_ns} {jars}"
    return cache_folder() / "spark" / f"classes-{_short(pyspark.__file__)}-{_short(parts)}.jsa"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def options() -> str:
    """Java options that use the archive."""
    return f"-XX:SharedArchiveFile={archive()} {QUIET}"


def make() -> None:
    """Make the archive when there is none: from a small replicator that copies a table and some changes into Delta."""
    target = archive()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".partial-{uuid.uuid4().hex[:8]}.jsa")
        try:
            command = [sys.executable, "-m", "tests.services.spark.class_archive", str(partial)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ServerError(f"Spark for the tests ended with {done.returncode}:\n{done.stderr}")
            partial.replace(target)
            _delete_former(target)
        finally:
            partial.unlink(missing_ok=True)
    print(f"  Spark's classes: {target}", flush=True)  # noqa: T201  # a setup step


def _delete_former(target: Path) -> None:
    """Delete the archives of the same environment as it was before; each has more than 100 MB."""
    place, _, _ = target.name.rpartition("-")
    for former in target.parent.glob(f"{place}-*.jsa"):
        if former != target:
            former.unlink(missing_ok=True)


def _keep_classes(target: Path) -> None:
    """Run the replicator in a session of this process, whose virtual machine writes the archive as it ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from tests.services.spark.session import INTERPRETER, settings

    os.environ.update(INTERPRETER)
    with tempfile.TemporaryDirectory() as folder:
        conf: dict[str, str] = settings() | {
            "spark.master": "local[2]",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        conf["spark.driver.extraJavaOptions"] = f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={target} {QUIET}"
        session = SparkSession.builder.config(map=dict(conf)).getOrCreate()
        _replicate(Path(folder))
        session.stop()
    process = SparkContext._gateway.proc  # type: ignore[union-attr]  # pyspark has no public way
    process.stdin.close()
    process.wait(120)


def _replicate(folder: Path) -> None:
    from replicator_runtime.cli.app import app

    pipeline = folder / "pipeline.json"
    source = {"path": str(folder / "shop.db")}
    document = {
        "name": "classes",
        "offsetBasePath": str(folder / "state"),
        "stages": [
            {"name": "source", "plugin": {"name": "sqlite", "type": "cdcSource", "properties": source}},
            {
                "name": "target",
                "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(folder / "lake")}},
            },
        ],
        "connections": [{"from": "source", "to": "target"}],
    }
    pipeline.write_text(json.dumps(document))
    _run(folder, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    for statement in ("UPDATE t SET name = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2"):
        try:
            app(["run", str(pipeline), "--until-current", "--json"], prog_name="replicator")
        except SystemExit as end:
            if end.code:
                raise
        _run(folder, statement)


def _run(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        for statement in statements:
            database.execute(statement)


if __name__ == "__main__":
    if sys.argv[1:]:
        _keep_classes(Path(sys.argv[1]))
    else:
        make()
