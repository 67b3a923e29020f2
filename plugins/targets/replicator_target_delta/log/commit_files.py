"""Files of a table's log on an object store, each created only where there is none.

S3 is asked through Hadoop, by Spark's own credentials. Hadoop's client of Azure creates a file and fills it afterwards, so that a process
that is killed between leaves a version without content. So Azure gets a commit as one request with a condition (`If-None-Match: *`), by adlfs,
which also keeps a replicator's state there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from py4j.protocol import Py4JJavaError

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_target_delta.ddl.table_folder import file_system
from replicator_target_delta.jvm_classes import JvmClasses
from replicator_target_delta.location import is_on_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONDITION: Final = "fs.option.create.conditional.overwrite"
_TAKEN: Final = frozenset({"RemoteFileChangedException", "FileAlreadyExistsException"})
_S3_HINT: Final = (
    "use Hadoop 3.4.2 or later and a store with conditional writes, or name another log store of Delta for the path's scheme in "
    "the pipeline's `spark.conf` (`spark.delta.logStore.s3a.impl`)"
)
_HINT: Final = (
    "use a store with conditional writes, or name a log store of Delta that excludes two writers for the path's scheme in the pipeline's "
    "`spark.conf` (`spark.delta.logStore.abfss.impl`)"
)
_INSTALL: Final = "install it where the replicator runs: `pip install 'replicator[azure]'`"
_FORBIDDEN: Final = frozenset({401, 403})
_NO_TOKEN: Final = frozenset({"ClientAuthenticationError", "CredentialUnavailableError"})


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
    return _S3Files(spark, folder) if is_on_s3(folder) else _AzureFiles(folder)


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


class _AzureFiles:
    """By adlfs."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files, self._root = _client(folder)

    def create(self, name: str, content: bytes) -> bool:
        with _translated(self._folder):
            try:
                self._files.pipe_file(f"{self._root}/{name}", content, mode="create")
            except FileExistsError:
                return False
        return True

    def read(self, name: str) -> bytes:
        with _translated(self._folder):
            self._files.invalidate_cache()
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except (
                FileNotFoundError
            ) as error:  # the store refused it for another reason than that it is there, such as a lease
                raise RetryableError(
                    f"the store refused to create {name} in {self._folder}, which is not there",
                    code="RPL-4401",
                    hint="retried by itself",
                ) from error

    def delete(self, name: str) -> None:
        with _translated(self._folder), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def unsafe(self, why: str) -> NeedsUserError:
        return NeedsUserError(
            f"two runs could overwrite each other's commits at {self._folder}: {why}", code="RPL-3409", hint=_HINT
        )


def _client(folder: str) -> tuple[Any, str]:
    """The fsspec client, and the folder as it names it."""
    from fsspec.core import url_to_fs

    try:
        with _translated(folder):
            files, root = url_to_fs(folder)
    except ImportError as error:
        raise NeedsUserError(
            f"two runs could overwrite each other's commits at {folder}: the client that writes them with a condition is missing: {error}",
            code="RPL-3409",
            hint=_INSTALL,
        ) from error
    account = folder.split("://", 1)[1].split("/", 1)[0].partition("@")[2].partition(".")[0]
    found = str(files.service_client.account_name)
    if found != account:
        raise NeedsUserError(
            f"commits to {folder} would be written to the account {found!r}: AZURE_STORAGE_CONNECTION_STRING names it",
            code="RPL-3416",
            hint="let the variable name the account of `path`, or use AZURE_STORAGE_ACCOUNT_KEY, or a role",
        )
    return files, str(root).rstrip("/")


@contextlib.contextmanager
def _translated(folder: str) -> Iterator[None]:
    """What the client raises has no common type, and its text may hold an address with a signature."""
    try:
        yield
    except (ReplicatorError, ImportError, FileExistsError, FileNotFoundError):
        raise
    except Exception as error:
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        name = type(error).__name__
        if isinstance(error, PermissionError) or status in _FORBIDDEN or "Forbidden" in str(error):
            raise NeedsUserError(
                f"the target cannot write {folder}: {name}",
                code="RPL-3403",
                hint="grant write rights on it, renew the credentials if they have expired, or choose another `path`",
            ) from error
        if name in _NO_TOKEN:  # without an answer of the store: a service of identities may be away for a while
            raise RetryableError(
                f"no credentials could be obtained for {folder}: {name}",
                code="RPL-4401",
                hint="retried by itself; renew the credentials if they have expired",
            ) from error
        said = f" with status {status}" if isinstance(status, int) else ""
        raise RetryableError(
            f"the store has failed at {folder}: {name}{said}", code="RPL-4401", hint="retried by itself"
        ) from error
