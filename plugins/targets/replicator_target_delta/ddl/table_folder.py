"""Moves and deletes a table's folder, through Hadoop's file systems as Delta itself does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.errors import RetryableError, SchemaDriftError
from replicator_sdk.schema import TableId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATOMIC: Final = {"", "file", "hdfs", "viewfs", "abfs", "abfss"}


def renames_at_once(path: str) -> bool:
    """Whether the store renames a folder as one step, so that a process that is killed leaves it whole."""
    return _scheme(path) in _ATOMIC


def move_folder(spark: SparkSession, old: str, new: str, table: TableId) -> None:
    """Rename the folder `old` to `new` at once.

    Raises:
        SchemaDriftError: Where a store cannot rename a folder atomically.
    """
    scheme = _scheme(old)
    if not renames_at_once(old):
        raise SchemaDriftError(
            f"a table was renamed, and {scheme}:// cannot rename a folder atomically",
            code="RPL-6406",
            table=str(table),
            hint="move the folder by hand while the replicator is stopped, or take a snapshot under the new name",
        )
    jvm, system = file_system(spark, old)
    target = jvm.org.apache.hadoop.fs.Path(new)
    system.mkdirs(target.getParent())
    if not system.rename(jvm.org.apache.hadoop.fs.Path(old), target):
        raise RetryableError(f"could not move {old} to {new}", code="RPL-4404", table=str(table))
    _forget(spark, jvm, old)


def delete_folder(spark: SparkSession, path: str) -> None:
    """Delete the folder and all in it; nothing when it does not exist.

    Where the store renames atomically it is renamed first: a process that is killed while it deletes leaves no table with
    half a log, and the next call deletes the rest.
    """
    jvm, system = file_system(spark, path)
    parent, name = path.rsplit("/", 1)
    aside = f"{parent}/.dropped-{name}"
    _delete(spark, aside)
    folder = jvm.org.apache.hadoop.fs.Path(path)
    if renames_at_once(path) and system.exists(folder) and system.rename(folder, jvm.org.apache.hadoop.fs.Path(aside)):
        _forget(spark, jvm, path)
        _delete(spark, aside)
    else:
        _delete(spark, path)
        _forget(spark, jvm, path)


def _delete(spark: SparkSession, path: str) -> None:
    jvm, system = file_system(spark, path)
    system.delete(jvm.org.apache.hadoop.fs.Path(path), True)


def _scheme(path: str) -> str:
    return path.split("://", 1)[0] if "://" in path else ""


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The JVM, and Hadoop's file system that `path` is in: the one object that the JVM has for it."""
    jvm: Any = spark._jvm  # noqa: SLF001 - Hadoop's file systems have no Python interface
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    return jvm, hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001


def _forget(spark: SparkSession, jvm: Any, path: str) -> None:
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(
        spark._jsparkSession,  # noqa: SLF001
        jvm.org.apache.hadoop.fs.Path(path),
    )
