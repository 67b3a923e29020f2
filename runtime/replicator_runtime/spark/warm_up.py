"""Prepares a machine for a pipeline's starts of Spark: its jars are in the cache, and the classes that Spark loads in an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replicator_runtime.spark.class_archive import archive_of, make_archive
from replicator_runtime.spark.jars import keep_jars, local_jars
from replicator_runtime.spark.java import require_java
from replicator_runtime.spark.session import session_settings


@dataclass(frozen=True)
class WarmUp:
    """What a machine has now.

    Attributes:
        jars: Of the pipeline's plugins, where all are in the cache. Packages of `spark.conf` are resolved at each start.
        archive: Of Spark's classes.
        is_new: Whether the archive was made now.
    """

    jars: tuple[Path, ...]
    archive: Path
    is_new: bool

    def to_json(self) -> dict[str, object]:
        """As `replicator warm-up --json` gives it."""
        return {"jars": [str(jar) for jar in self.jars], "archive": str(self.archive), "made": self.is_new}


def warm_up(
    *, master: str, conf: Mapping[str, str], packages: Sequence[str], cores: int | None, memory_mb: int | None
) -> WarmUp:
    """Fetch what is missing, make the archive where there is none; may be repeated, and be cut off at any time.

    Args:
        master: As in `build_session`, like the others; Spark runs here whatever it says.
        conf: Settings.
        packages: Maven coordinates.
        cores: Of a local master.
        memory_mb: Heap.

    Raises:
        NeedsUserError: As `session_settings`; RPL-7201 without Java, RPL-7213 when Java wrote no archive, or Spark did not start.
    """
    java = require_java()
    settings = session_settings(master=master, conf=conf, packages=packages, cores=cores, memory_mb=memory_mb)
    is_new = make_archive(java, settings)
    keep_jars(packages, settings)
    return WarmUp(tuple(local_jars(packages) or ()), archive_of(java), is_new)
