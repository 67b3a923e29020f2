"""Commits to a table on Azurite; run as `python -m …`, prints what happened as JSON.

A program of its own, because Spark needs ABFS from its start. It starts Azurite itself, to plan its faults.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from replicator_sdk.datatype import INT64
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.ddl.table_folder import delete_folder, renames_at_once
from replicator_target_delta.log.commit_files import commit_files
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.plugin import session_settings
from replicator_target_delta.schema.table_definition import TableDefinition
from tests.plugins.targets.delta.log.s3_commits import code_of
from tests.services.azure import server as azure
from tests.services.http_gate import Fault
from tests.services.spark.session import settings

_SCHEMA = TableSchema(TableId("s", "t"), (Column("id", INT64),), ("id",))
_FAULTS = (Fault(status=500), Fault(status=503), Fault(lose_answer=True), Fault(seconds=1))


def session(server: azure.AzureServer) -> SparkSession:
    """Spark with Delta and ABFS."""
    abfs, conf = azure.spark_settings(server), settings() | session_settings(2, "abfs://container")
    jars = f"{conf['spark.jars']},{abfs['spark.jars']}"
    conf |= {**abfs, "spark.jars": jars, "spark.master": "local[2]", "spark.driver.memory": "800m"}
    return SparkSession.builder.config(map=dict(conf)).getOrCreate()


class Scenes:
    """What happens to commits, one method each; a table of its own for each."""

    def __init__(self, spark: SparkSession, server: azure.AzureServer, root: str) -> None:
        self._spark, self._server, self._root = spark, server, root

    def _table(self, name: str) -> TableLog:
        log = TableLog(self._spark, f"{self._root}/{name}")
        metadata = TableDefinition.create(_SCHEMA, {}).to_metadata()
        log.begin().commit({"by": "first"}, writer="test", metadata=metadata)
        return log

    def commits(self) -> Any:
        """Three in a row, and a checkpoint between, read by Delta, by a new process' eyes and by deltalake."""
        log = self._table("plain")
        for number in range(3):
            log.begin().commit({"number": number}, writer="test", note="n")
            if number == 1:
                log.checkpoint(0)
        TableLog._states.clear()
        log = TableLog(self._spark, log.path)
        log.forget()
        state = log.begin().state
        history = self._spark.sql(f"DESCRIBE HISTORY delta.`{log.path}`").count()
        read = DeltaTable(f"az://{self._root[7:].partition('@')[0]}/plain", storage_options=azure.reader(self._server))
        return [state.version, state.stored, history, read.version()]

    def files(self) -> Any:
        """Data files are written, looked at, found and deleted; and the folder with all in it."""
        log = self._table("files")
        with log.storage.open_output("a.parquet") as file:
            file.write(b"123")
        [found] = log.storage.data_files()
        with log.storage.open_input("a.parquet") as file:
            read = file.read().decode()
        log.storage.delete(found)
        left = [each.name for each in log.storage.data_files()]
        delete_folder(self._spark, log.path)
        return [found.size, read, left, log.stamp(0)]

    def late(self) -> Any:
        """A commit that the store gets only after another run's commit of the same version."""
        log = self._table("late")
        transaction = log.begin()
        server = self._server
        server.plan(Fault("PUT", rf"_delta_log/{1:020}\.json", held=True))
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(code_of(lambda: transaction.commit({}, writer="late"))))
        thread.start()
        until = time.monotonic() + 120
        while not server.held:
            assert time.monotonic() < until
            time.sleep(0.05)
        files = commit_files(self._spark, f"{log.path}/_delta_log")
        assert files.create(f"{1:020}.json", b'{"commitInfo":{"by":"the newer run"}}')
        server.release()
        thread.join()
        return [answers[0], b"the newer run" in files.read(f"{1:020}.json")]

    def faults(self) -> Any:
        """Refused, throttled, lost and slow writes of commits."""
        log = self._table("faults")
        for fault in _FAULTS:
            planned = Fault("PUT", r"_delta_log/0+\d+\.json", 1, fault.status, fault.seconds, fault.lose_answer)
            self._server.plan(planned)
            log.begin().commit({"fault": str(fault)}, writer="test")
        return log.begin().state.version


def main() -> None:
    """Run all scenes."""
    from azure.storage.blob._shared.policies_async import ExponentialRetry

    setattr(ExponentialRetry, "get_backoff_time", lambda self, settings: 0.05)  # noqa: B010
    server = azure.start()
    os.environ.update(server.environment)
    try:
        spark = session(server)
        root = f"abfs://{server.container()}@{azure.ACCOUNT}.dfs.core.windows.net"
        scenes = Scenes(spark, server, root)
        found = {
            "commits": scenes.commits(),
            "files": scenes.files(),
            "late": scenes.late(),
            "faults": scenes.faults(),
            "renames at once": renames_at_once(spark, root),
        }
        sys.stdout.write(f"found {json.dumps(found)}\n")
        spark.stop()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
