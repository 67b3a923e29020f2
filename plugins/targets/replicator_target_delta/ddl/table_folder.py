"""Moves and deletes a table's folder, through Hadoop's file systems as Delta itself does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from replicator_sdk.errors import RetryableError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.schema import TableId
from replicator_target_delta.files.data_file import is_data_file
from replicator_target_delta.jvm_classes import DELTA, JvmClasses
from replicator_target_delta.location import is_on_azure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DROPPED: Final = ".dropped-"
"""What the name of a folder begins with whose deletion has begun."""
_CLIENTS: Final = {
    "s3": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "gs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
}
_ATOMIC: Final = {"", "file", "hdfs", "viewfs"}
_HIERARCHICAL: Final = "fs.capability.paths.acls"
"""What Hadoop's client of Azure can do only where the account has a hierarchical namespace."""


def renames_at_once(spark: SparkSession, path: str) -> bool:
    """Whether the store renames a folder as one step, so that a process that is killed leaves it whole.

    Azure does where the account has a hierarchical namespace; elsewhere Hadoop copies the files of a folder one by one.
    """
    if is_on_azure(path):
        return bool(file_system(spark, path).hasPathCapability(JvmClasses.of(spark).path(path), _HIERARCHICAL))
    return _scheme(path) in _ATOMIC


def move_folder(spark: SparkSession, old: str, new: str, table: TableId) -> None:
    """Rename the folder `old` to `new` at once; at `new` is no table, or what a killed copy left of one.

    Raises:
        SchemaDriftError: Where a store cannot rename a folder atomically.
        SnapshotNeededError: Where files of another program are at `new`: they stay, and the other tables go on.
    """
    scheme = _scheme(old)
    if not renames_at_once(spark, old):
        raise SchemaDriftError(
            f"a table was renamed, and {scheme}:// cannot rename a folder atomically",
            code="RPL-6406",
            table=str(table),
            hint="move the folder by hand while the replicator is stopped, or take a snapshot under the new name",
        )
    classes, system = JvmClasses.of(spark), file_system(spark, old)
    target = classes.path(new)
    system.mkdirs(target.getParent())
    if not _is_free(system, target):
        raise SnapshotNeededError(
            f"the source renamed a table, and {new} holds files that are not the replicator's",
            code="RPL-6412",
            table=str(table),
            hint="nothing to do: the table is copied under its new name",
        )
    if not system.rename(classes.path(old), target):
        raise RetryableError(f"could not move {old} to {new}", code="RPL-4404", table=str(table))
    _forget(spark, old)


def _is_free(system: Any, folder: Any) -> bool:
    """Whether `folder` does not exist, now that the replicator's files without a log are deleted: a rename would move into it."""
    if not system.exists(folder):
        return True
    names = [str(found.getPath().getName()) for found in system.listStatus(folder)]
    if all(map(is_data_file, names)):
        system.delete(folder, True)
        return True
    return False


def delete_folder(spark: SparkSession, path: str) -> None:
    """Delete the folder and all in it; nothing when it does not exist.

    Where the store renames atomically it is renamed first: a process that is killed while it deletes leaves no table with
    half a log, and the next call deletes the rest.
    """
    classes, system = JvmClasses.of(spark), file_system(spark, path)
    aside = _aside(path)
    _delete(spark, aside)
    folder = classes.path(path)
    if renames_at_once(spark, path) and system.exists(folder) and system.rename(folder, classes.path(aside)):
        _forget(spark, path)
        _delete(spark, aside)
    else:
        _delete(spark, path)
        _forget(spark, path)


def delete_rest(spark: SparkSession, path: str) -> None:
    """Delete what a `delete_folder` that was cut off left of the folder."""
    _delete(spark, _aside(path))


def _aside(path: str) -> str:
    parent, name = path.rsplit("/", 1)
    return f"{parent}/{DROPPED}{name}"


def delete_empty_folder(spark: SparkSession, path: str) -> None:
    """Delete a folder that holds nothing, or only an empty log; any other stays, and object stores have none."""
    if not renames_at_once(spark, path):
        return
    system = file_system(spark, path)
    for folder in map(JvmClasses.of(spark).path, (f"{path}/_delta_log", path)):
        if system.exists(folder) and not system.listStatus(folder):
            with contextlib.suppress(Py4JJavaError):  # another run has written into it since
                system.delete(folder, False)


def _delete(spark: SparkSession, path: str) -> None:
    file_system(spark, path).delete(JvmClasses.of(spark).path(path), True)


def _scheme(path: str) -> str:
    return path.split("://", 1)[0] if "://" in path else ""


def name_client(spark: SparkSession, path: str) -> None:
    """Have Hadoop open `s3://` by the client of `s3a://`, and `gs://` by Google's, unless a client is configured for it, as on EMR.

    Hadoop has none for these schemes. What is configured is known only once Java runs: a pipeline's `spark.conf` may say it, or
    `core-site.xml`, or `spark-submit`.
    """
    if client := _CLIENTS.get(_scheme(path)):
        spark.sparkContext._jsc.hadoopConfiguration().setIfUnset(f"fs.{_scheme(path)}.impl", client)  # noqa: SLF001


def file_system(spark: SparkSession, path: str) -> Any:
    """Hadoop's file system that `path` is in: the one object that the JVM has for it."""
    name_client(spark, path)
    hadoop = JvmClasses.of(spark).path(path)
    return hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001


def _forget(spark: SparkSession, path: str) -> None:
    classes = JvmClasses.of(spark)
    classes[f"{DELTA}.DeltaLog"].invalidateCache(spark._jsparkSession, classes.path(path))  # noqa: SLF001
