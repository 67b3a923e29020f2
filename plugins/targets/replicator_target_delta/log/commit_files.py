"""Files of a table's log on an object store, each created only where there is none.

S3 is asked through Hadoop, by Spark's own credentials, Azure and Cloud Storage by the client that also keeps a replicator's state there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from py4j.protocol import Py4JJavaError

from replicator_sdk.errors import NeedsUserError
from replicator_target_delta.ddl.table_folder import file_system
from replicator_target_delta.jvm_classes import JvmClasses
from replicator_target_delta.location import is_on_s3
from replicator_target_delta.log.client_files import ClientFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONDITION: Final = "fs.option.create.conditional.overwrite"
_TAKEN: Final = frozenset({"RemoteFileChangedException", "FileAlreadyExistsException"})
_S3_HINT: Final = (
    "use Hadoop 3.4.2 or later and a store with conditional writes, or name another log store of Delta for the path's scheme in "
    "the pipeline's `spark.conf` (`spark.delta.logStore.s3a.impl`)"
)


class CommitFiles(Protocol):
    """Files in one folder."""

    def create(self, name: str, content: bytes) -> bool:
        """Whether the file was created, as a whole; False when there is one."""

    def read(self, name: str) -> bytes:
        """The content of a file that exists."""

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone is no error."""

    def unsafe(self, why: str) -> NeedsUserError:
        """The error of a store that cannot refuse a file that exists."""


def commit_files(spark: SparkSession, folder: str) -> CommitFiles:
    """The files in `folder`, on an object store; asks nothing of it."""
    return _S3Files(spark, folder) if is_on_s3(folder) else ClientFiles(folder)


class _S3Files:
    """By Hadoop's S3A."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._folder = folder
        self._classes, self._files = JvmClasses.of(spark), file_system(spark, folder)

    def create(self, name: str, content: bytes) -> bool:
        from pyspark.errors import IllegalArgumentException

        try:
            stream = self._files.createFile(self._at(name)).must(_CONDITION, True).build()
            stream.write(content)
            stream.close()
        except IllegalArgumentException as error:
            raise self.unsafe("Hadoop's file system does not know conditional writes") from error
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getSimpleName()) in _TAKEN:
                return False
            if "Conditional Writes Unavailable" in str(error.java_exception.getMessage()):
                raise self.unsafe("`fs.s3a.create.conditional.enabled` is false") from error
            raise
        return True

    def read(self, name: str) -> bytes:
        stream = self._files.open(self._at(name))
        try:
            return bytes(self._classes["org.apache.commons.io.IOUtils"].toByteArray(stream))
        finally:
            stream.close()

    def delete(self, name: str) -> None:
        self._files.delete(self._at(name), False)

    def unsafe(self, why: str) -> NeedsUserError:
        return NeedsUserError(
            f"two runs could overwrite each other's commits at {self._folder}: {why}", code="RPL-3409", hint=_S3_HINT
        )

    def _at(self, name: str) -> Any:
        return self._classes.path(f"{self._folder}/{name}")
