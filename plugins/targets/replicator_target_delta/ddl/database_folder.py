"""Creates and deletes the folder of a database's tables, on stores that have folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from replicator_sdk.authoring.driver_errors import translated_errors
from replicator_sdk.errors import NeedsUserError
from replicator_target_delta.ddl.table_folder import DROPPED, file_system, renames_at_once
from replicator_target_delta.jvm_classes import JvmClasses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_database(spark: SparkSession, folder: str) -> None:
    """Create the folder; one that exists is no error. Object stores have no folders: nothing is done there.

    Raises:
        NeedsUserError: When the storage refuses.
    """
    if renames_at_once(folder):
        with translated_errors(Py4JJavaError, lambda error: _refused(error, folder)):
            file_system(spark, folder).mkdirs(JvmClasses.of(spark).path(folder))


def drop_database(spark: SparkSession, folder: str) -> bool:
    """Delete the folder unless it holds a table or anything else; returns whether there is none now.

    What a killed run left of tables whose deletion it had begun is deleted with it.

    Raises:
        NeedsUserError: When the storage refuses.
    """
    with translated_errors(Py4JJavaError, lambda error: _refused(error, folder)):
        system, path = file_system(spark, folder), JvmClasses.of(spark).path(folder)
        if not system.exists(path):
            return True
        inside = [entry.getPath() for entry in system.listStatus(path)]
        if any(not entry.getName().startswith(DROPPED) for entry in inside):
            return False
        for entry in inside:
            system.delete(entry, True)
        return _delete_empty(system, path)


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
