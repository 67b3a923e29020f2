"""An archive of the classes that Spark loads, with which its Java virtual machine starts with about a third less work.

It is Java's own (class data sharing, JDK 17 and later), made once on a machine by `replicator warm-up` and used by every start after it.
Another Java, other jars of Spark, or the same ones installed again have another archive; where there is none, Java goes on without.
Why: docs/decisions/0062-what-a-start-costs.md
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.spark.jars import cache_folder, require_room_for
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""Java says on every start that an archive does not fit; it goes on without."""
_SECONDS: Final = 1800
"""A first download of jars included."""
_SECONDS_TO_WRITE: Final = 300
_EXTENSION_OF_DELTA: Final = "io.delta.sql.DeltaSparkSessionExtension"


def archive_of(java: Path) -> Path:
    """Where the archive for this Java and the installed Spark is, whether it exists or not."""
    import pyspark

    found = ((jar.name, jar.stat()) for jar in (Path(pyspark.__file__).parent / "jars").iterdir())
    jars = sorted((name, about.st_size, about.st_mtime_ns) for name, about in found)
    program = f"{java.resolve()} {java.stat().st_mtime_ns}"
    return cache_folder() / "spark" / f"classes-{_short(pyspark.__file__)}-{_short(f'{program} {jars}')}.jsa"


def archive_options(java: Path, options: str) -> str:
    """Options of the virtual machine with the archive, where there is one and `options` do not decide about it."""
    if "-Xshare" in options or "SharedArchiveFile" in options or "ArchiveClassesAtExit" in options:
        return options
    try:
        archive = archive_of(java)
        if not archive.is_file():
            return options
    except OSError:  # jars that are being installed, or a folder of another account
        return options
    log = "" if "-Xlog" in options else f" {_QUIET}"
    return f'{options} -XX:SharedArchiveFile="{archive}"{log}'.strip()


def make_archive(java: Path, settings: Mapping[str, str]) -> bool:
    """Make the archive by a session in a process of its own, unless there is one; whether it is new.

    Takes about half a minute and 130 MB. Archives of the same environment as it was before are deleted. Several processes may do it
    at once: each finds a whole archive or none. Where `settings` name packages, they are resolved in any case.

    Args:
        java: The program.
        settings: Of the session, as `session_settings` gives them.

    Raises:
        NeedsUserError: RPL-7213 when Java wrote none, or Spark did not start; RPL-7215 when this account may not write there.
    """
    target = archive_of(java)
    is_new = not target.is_file()
    if not is_new and not settings.get("spark.jars.packages"):
        return False
    require_room_for(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".partial-{uuid.uuid4().hex[:8]}.jsa")
    try:
        said = _in_a_process(partial, settings)
        if said is not None:
            raise NeedsUserError(
                f"Java wrote no archive of Spark's classes: {said}",
                code="RPL-7213",
                hint="runs start without it, only later; it needs a whole Java 17 or 21 (openjdk-17-jre-headless, say), 200 MB of "
                f"free disk at {cache_folder()}, and the repository of the jars when they are not there yet",
            )
        if is_new:
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    _delete_former(target)
    return is_new


def _in_a_process(partial: Path, settings: Mapping[str, str]) -> str | None:
    """Have a process of its own write the archive `partial`; why it did not, or None."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(partial)],
            input=json.dumps(dict(settings)),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was not done after {_SECONDS} seconds"
    return None if done.returncode == 0 and partial.is_file() else _last_line(done.stderr)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "nothing was said"


def _delete_former(target: Path) -> None:
    place, _, _ = target.name.rpartition("-")
    for former in target.parent.glob(f"{place}-*.jsa"):
        if former != target:
            former.unlink(missing_ok=True)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _keep_classes(target: Path, settings: Mapping[str, str]) -> None:
    """Use Spark as a run does, in a virtual machine that writes the archive as it ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = settings.get("spark.driver.extraJavaOptions", "")
    with tempfile.TemporaryDirectory(prefix="replicator-classes-") as folder:
        conf: dict[str, Any] = {
            **settings,
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.driver.extraJavaOptions": f'{own} -XX:ArchiveClassesAtExit="{target}" {_QUIET}'.strip(),
        }
        session = SparkSession.builder.config(map=conf).getOrCreate()
        _use(session, f"{folder}/rows", "delta" if _EXTENSION_OF_DELTA in conf.get("spark.sql.extensions", "") else "")
        session.stop()
    process = SparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001  # pyspark has no public way
    process.stdin.close()
    process.wait(_SECONDS_TO_WRITE)


def _use(session: SparkSession, path: str, table_format: str) -> None:
    """Write, read and change rows, some of them in Python workers."""
    rows = session.range(1000).selectExpr("id", "cast(id as string) as name")
    rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(path)
    found = session.read.parquet(path).where("id > 10").groupBy("name").count().orderBy("name")
    found.toArrow()
    if table_format:
        table = f"{path}-{table_format}"
        for _ in range(2):
            rows.write.format(table_format).mode("overwrite").save(table)
        session.read.format(table_format).load(table).toArrow()


if __name__ == "__main__":
    _keep_classes(Path(sys.argv[1]), json.load(sys.stdin))
