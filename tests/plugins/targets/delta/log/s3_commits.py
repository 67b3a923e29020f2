"""Commits to a table on the S3 server of the environment; run as `python -m … ENDPOINT BUCKET`, prints what happened as JSON.

A program of its own, because Spark needs S3A's jars from its start.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import fsspec
from pyspark.sql import SparkSession

from replicator_sdk.datatype import INT64
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.log.conditional_commit import ConditionalCommit
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.plugin import session_settings
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm
from tests.services.s3.server import Fault, S3Server
from tests.services.s3.spark import s3a_settings
from tests.services.spark.session import settings

_SCHEMA = TableSchema(TableId("s", "t"), (Column("id", INT64),), ("id",))


def session(endpoint: str) -> SparkSession:
    """Spark with Delta and S3A."""
    s3a = s3a_settings(endpoint)
    conf = settings() | session_settings(2, "s3://bucket")
    jars = f"{conf['spark.jars']},{s3a['spark.jars']}"
    conf |= {**s3a, "spark.jars": jars, "spark.master": "local[2]", "spark.driver.memory": "800m"}
    return SparkSession.builder.config(map=dict(conf)).getOrCreate()


class Scenes:
    """What happens to commits, one method each; a table of its own for each."""

    def __init__(self, spark: SparkSession, server: S3Server, bucket: str) -> None:
        self._spark, self._server, self._bucket = spark, server, bucket
        self._files = fsspec.filesystem("s3")

    def _table(self, name: str, scheme: str = "s3a") -> TableLog:
        log = TableLog(self._spark, f"{scheme}://{self._bucket}/{name}")
        metadata = TableDefinition.create(_SCHEMA, TableForm()).to_metadata()
        log.begin().commit({"by": "first"}, writer="test", metadata=metadata)
        return log

    def _commit_file(self, name: str, version: int) -> str:
        return f"{self._bucket}/{name}/_delta_log/{version:020}.json"

    def commits(self) -> Any:
        """Three in a row, read by Delta and by a new process' eyes."""
        log = self._table("plain", "s3")
        for number in range(3):
            log.begin().commit({"number": number}, writer="test", note="n")
        TableLog._states.clear()
        state = TableLog(self._spark, log.path).begin().state
        history = self._spark.sql(f"DESCRIBE HISTORY delta.`{log.path}`").count()
        return [state.version, state.stored, history]

    def late(self, *, delta_alone: bool = False) -> Any:
        """A commit that S3 gets only after another run's commit of the same version."""
        name = f"late-{delta_alone}".lower()
        if delta_alone:
            self._spark.conf.set("spark.delta.logStore.s3a.impl", "io.delta.storage.S3SingleDriverLogStore")
        try:
            log = self._table(name)
            path = self._commit_file(name, 1)
            transaction = log.begin()
            self._server.plan(Fault("PUT", f"/{name}/_delta_log/{1:020}.json", held=True))
            answers: list[str] = []
            thread = threading.Thread(
                target=lambda: answers.append(code_of(lambda: transaction.commit({}, writer="late")))
            )
            thread.start()
            until = time.monotonic() + 120
            while not self._server.held:
                assert time.monotonic() < until
                time.sleep(0.05)
            self._files.pipe_file(path, b'{"commitInfo":{"by":"the newer run"}}', mode="create")
            self._server.release()
            thread.join()
        finally:
            self._spark.conf.unset("spark.delta.logStore.s3a.impl")
        self._files.invalidate_cache()
        return [answers[0], b"the newer run" in self._files.cat_file(path)]

    def faults(self) -> Any:
        """Refused, throttled, lost and slow writes of commits."""
        log = self._table("faults")
        for fault in (Fault(status=500), Fault(status=503, times=2), Fault(lose_answer=True), Fault(seconds=1)):
            self._server.plan(Fault("PUT", "_delta_log/0", fault.times, fault.status, fault.seconds, fault.lose_answer))
            log.begin().commit({"fault": str(fault)}, writer="test")
        return log.begin().state.version

    def careless(self) -> Any:
        """A store that takes the condition and ignores it."""
        ConditionalCommit._proved.clear()
        self._server.plan(Fault("PUT", "_probe", ignore_condition=True, times=2))
        answer = code_of(lambda: self._table("careless"))
        return [answer, self._files.find(f"{self._bucket}/careless")]

    def requests(self) -> Any:
        """What three commits ask of the store, and how its log is listed then, after ten commits and after more than a page."""
        return [self._asked(10), self._asked(1_010)]

    def _asked(self, length: int) -> dict[str, Any]:
        log = self._table(f"long-{length}")
        log.checkpoint(0)
        self._lengthen(f"{self._bucket}/long-{length}/_delta_log", length)
        TableLog._states.clear()
        log = TableLog(self._spark, log.path)
        log.begin().commit({}, writer="test")  # reads the log once, as a run does that starts
        self._server.clear()
        for _ in range(3):
            log.begin().commit({}, writer="test")
        commits = [path for path, _ in self._server.requests()]
        checksum = json.loads(self._files.cat_file(f"{self._bucket}/long-{length}/_delta_log/{length + 4:020}.crc"))
        self._server.clear()
        log.checkpoint(0)
        after = [path for path, _ in self._server.requests()]
        assert log.begin().state.version == length + 4
        return {
            "commits": len(commits),
            "checksum": [checksum["numFiles"], [domain["domain"] for domain in checksum["domainMetadata"]]],
            "lists": sum(path.endswith("_delta_log%2F") for path in commits),
            "update": [
                path for path in after if path.endswith(f"start-after=long-{length}%2F_delta_log%2F{length:020}-")
            ],
        }

    def _lengthen(self, log: str, length: int) -> None:
        """Give the table's only version the number `length`, and put as many commits before it."""
        for path in self._files.ls(log, detail=False):
            name = path.rpartition("/")[2]
            if name.startswith(f"{0:020}"):
                self._files.mv(path, f"{log}/{name.replace(f'{0:020}', f'{length:020}')}")
        pointer = json.loads(self._files.cat_file(f"{log}/_last_checkpoint"))
        pointer.pop("checksum", None)
        self._files.pipe_file(f"{log}/_last_checkpoint", json.dumps({**pointer, "version": length}).encode())
        self._files.pipe({f"{log}/{version:020}.json": b"{}" for version in range(length)})


def code_of(action: Callable[[], object]) -> str:
    try:
        action()
    except ReplicatorError as error:
        return error.code
    return "done"


def main(endpoint: str, bucket: str) -> None:
    """Run all scenes."""
    spark = session(endpoint)
    scenes = Scenes(spark, S3Server(int(endpoint.rpartition(":")[2])), bucket)
    found = {
        "commits": scenes.commits(),
        "late": scenes.late(),
        "late with Delta alone": scenes.late(delta_alone=True),
        "faults": scenes.faults(),
        "requests": scenes.requests(),
        "careless": scenes.careless(),
    }
    sys.stdout.write(f"found {json.dumps(found)}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
