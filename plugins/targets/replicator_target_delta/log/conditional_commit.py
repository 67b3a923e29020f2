"""Commits to tables on object stores, where only the store itself can say which of two writers came first.

Delta's own log store for S3 looks whether a version is there and then writes it, so that of two processes the later one takes
the place of the earlier one's commit. Here the store gets the commit with the condition that the version does not exist.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_target_delta.ddl.table_folder import file_system
from replicator_target_delta.jvm_classes import DELTA, JvmClasses
from replicator_target_delta.location import is_on_object_store
from replicator_target_delta.log.commit_files import commit_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_IN_COMMIT_TIMESTAMPS: Final = "delta.enableInCommitTimestamps"


def is_conditional(spark: SparkSession, path: str) -> bool:
    """Whether commits to the table at `path` are this module's: on an object store, unless the pipeline names a log store itself."""
    if not is_on_object_store(path):
        return False
    scheme = path.split("://", 1)[0]
    names = (f"spark.delta.logStore.{scheme}.impl", "spark.delta.logStore.class")
    return not any(spark.conf.get(name, "") for name in names)


class ConditionalCommit:
    """Writes versions of the table at `path`, each only when there is none of its number.

    Used by one thread at a time. The first of a process on a bucket is preceded by a probe of the condition.
    """

    _proved: Final[set[str]] = set()

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._path = path
        self._classes, self._files = JvmClasses.of(spark), file_system(spark, path)
        self._log = commit_files(spark, f"{path}/_delta_log")

    def write(self, version: int, actions: Sequence[str], description: dict[str, Any]) -> Any:
        """Write the version: what the commit is, with a `txnId` that no other has, and its actions as JSON; durable on return.

        Returns:
            Hadoop's `FileStatus` of the commit's file.

        Raises:
            NeedsUserError: RPL-3409 when the store cannot refuse a version that exists.
            RetryableError: RPL-4407 when another process has written the version.
        """
        self._prove()
        now = time.time_ns() // 1_000_000
        first = {"commitInfo": {"timestamp": now, **description}}
        content = "\n".join((json.dumps(first), *actions)).encode()
        name = f"{version:020}.json"
        # The client repeats a request whose answer is lost, and then meets its own commit.
        if not self._log.create(name, content) and self._log.read(name) != content:
            raise RetryableError(
                f"another process has written version {version} of the table at {self._path}",
                code="RPL-4407",
                hint="retried by itself; end the other program that writes there",
            )
        return self._files.getFileStatus(self._classes.path(f"{self._path}/_delta_log/{name}"))

    def write_checksum(self, version: int, checksum: Any) -> None:
        """Write Delta's checksum of a version that was written, which spares the next process to compute it; failing does no harm."""
        manifest = self._classes.scala_object("scala.reflect.ManifestFactory").classType(checksum.getClass())
        text = self._classes.scala_object(f"{DELTA}.util.JsonUtils").toJson(checksum, manifest)
        with contextlib.suppress(Py4JJavaError, ReplicatorError):
            self._log.create(f"{version:020}.crc", f"{text}\n".encode())

    def _prove(self) -> None:
        bucket = "/".join(self._path.split("/", 3)[:3])
        if bucket in self._proved:
            return
        name = f"_probe.{secrets.token_hex(8)}"
        try:
            refused = self._log.create(name, b"1") and not self._log.create(name, b"2")
        finally:
            self._log.delete(name)
        if not refused:
            raise self._log.unsafe("it has overwritten an object that it was to create")
        self._proved.add(bucket)


def check_timestamps(path: str, metadata: dict[str, Any]) -> None:
    """Refuse a table whose commits contain timestamps that only Delta's library can give.

    Raises:
        NeedsUserError: RPL-3410.
    """
    if str(metadata.get("configuration", {}).get(_IN_COMMIT_TIMESTAMPS, "")).lower() == "true":
        raise NeedsUserError(
            f"the table at {path} has {_IN_COMMIT_TIMESTAMPS}, which commits on object stores do not write",
            code="RPL-3410",
            hint=f"set {_IN_COMMIT_TIMESTAMPS} to false for the table",
        )
