"""Creates and deletes the folder of a database's tables, on stores that have folders."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from replicator_sdk.authoring.driver_errors import translated_errors
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_target_delta.ddl.table_folder import DROPPED, file_system, renames_at_once
from replicator_target_delta.jvm_classes import JvmClasses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register("delta.database.deleted")


class DatabaseFolders:
    """The folders of databases. Safe from several threads.

    A folder is deleted only when this replicator created it, which an empty folder beside it says,
    `.created-<database>-<replicator>`. It is created only where `dropTables: drop` has folders deleted at all. Object stores
    have no folders: nothing is done there.

    Args:
        spark: The session.
        owner: The replicator.
        are_dropped: Whether folders are ever deleted.
    """

    def __init__(self, spark: SparkSession, owner: str, *, are_dropped: bool) -> None:
        self._spark = spark
        self._owner = hashlib.sha256(owner.encode()).hexdigest()[:16]
        self._are_dropped = are_dropped
        self._known: set[str] = set()

    def create(self, folder: str) -> None:
        """Create the folder; one that exists is no error.

        Raises:
            NeedsUserError: When the storage refuses.
        """
        if not renames_at_once(self._spark, folder):
            return
        with translated_errors(Py4JJavaError, lambda error: _refused(error, folder)):
            system, path = file_system(self._spark, folder), JvmClasses.of(self._spark).path(folder)
            is_new = not system.exists(path)
            system.mkdirs(path)
            if is_new and self._are_dropped:  # a run that is killed before this leaves a folder that no run deletes
                system.mkdirs(self._mark(folder))
            self._known.add(folder)

    def prepare(self, folder: str) -> None:
        """Create the folder before a table is written in it; asks the storage once a run."""
        if self._are_dropped and folder not in self._known:
            self.create(folder)

    def drop(self, folder: str) -> str:
        """Delete the folder unless it holds a table or anything else; returns why it stays, empty when there is none now.

        What a killed run left of tables whose deletion it had begun is deleted with it.

        Raises:
            NeedsUserError: When the storage refuses.
        """
        with translated_errors(Py4JJavaError, lambda error: _refused(error, folder)):
            system, path = file_system(self._spark, folder), JvmClasses.of(self._spark).path(folder)
            mark = self._mark(folder)
            if system.exists(path):
                if not system.exists(mark):
                    return "this replicator did not create the folder"
                inside = [entry.getPath() for entry in system.listStatus(path)]
                if any(not entry.getName().startswith(DROPPED) for entry in inside):
                    return "the folder is not empty"
                for entry in inside:
                    system.delete(entry, True)
                if not _delete_empty(system, path):
                    return "the folder is not empty"
                failpoint("delta.database.deleted")
            system.delete(mark, False)
            self._known.discard(folder)
            return ""

    def _mark(self, folder: str) -> Any:
        parent, name = folder.rsplit("/", 1)
        return JvmClasses.of(self._spark).path(f"{parent}/.created-{name}-{self._owner}")


def _delete_empty(system: Any, path: Any) -> bool:
    """Delete a folder; False when a table was created in it meanwhile."""
    try:
        return bool(system.delete(path, False))
    except Py4JJavaError as error:
        if "PathIsNotEmpty" in str(error) or "not empty" in str(error):
            return False
        raise


def _refused(error: Py4JJavaError, folder: str) -> NeedsUserError:
    kind = error.java_exception.getClass().getSimpleName()
    return NeedsUserError(
        f"the storage refuses to change the folder {folder} ({kind})",
        code="RPL-6413",
        hint="give the replicator the right to write there, or list CREATE_DATABASE and DROP_DATABASE in `ddlBlacklist`",
    )
