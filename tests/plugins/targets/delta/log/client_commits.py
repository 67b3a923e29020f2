"""What happens to commits that are written by a client of Azure or of Cloud Storage, against a server with planned faults.

`azure_commits` and `gcs_commits` are the programs, since Spark needs the jars of the store from its start.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from replicator_sdk.datatype import INT64
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.ddl.table_folder import delete_folder, renames_at_once
from replicator_target_delta.log.commit_files import commit_files
from replicator_target_delta.log.conditional_commit import ConditionalCommit
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.plugin import session_settings
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm
from tests.plugins.targets.delta.log.s3_commits import code_of
from tests.services.http_gate import Fault, Gate
from tests.services.spark.session import settings

_SCHEMA = TableSchema(TableId("s", "t"), (Column("id", INT64),), ("id",))
_FAULTS = (
    Fault(status=500),
    Fault(status=503),
    Fault(lose_answer=True),  # of a commit that the store has
    Fault(status=503, lose_answer=True),  # of one that it has not
    Fault(seconds=1),
)
_AT_ONCE = 8
_RACES = 10


@dataclass(frozen=True)
class Place:
    """Where the tables are.

    Attributes:
        server: The store.
        root: The folder of all tables, as the target has it.
        readable: The same for deltalake.
        options: With which deltalake reads there.
        method: Of the request that writes a commit.
    """

    server: Gate
    root: str
    readable: str
    options: Mapping[str, str]
    method: str


def session(spark: Mapping[str, str], root: str) -> SparkSession:
    """Spark with Delta and the settings and jars of the store."""
    conf = settings() | session_settings(2, root)
    jars = f"{conf['spark.jars']},{spark['spark.jars']}"
    conf |= {**spark, "spark.jars": jars, "spark.master": "local[2]", "spark.driver.memory": "800m"}
    return SparkSession.builder.config(map=dict(conf)).getOrCreate()


class Scenes:
    """What happens to commits, one method each; a table of its own for each."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self._spark, self._place = spark, place
        self._server, self._root = place.server, place.root

    def _table(self, name: str) -> TableLog:
        log = TableLog(self._spark, f"{self._root}/{name}")
        self._create(log)
        return log

    def _create(self, log: TableLog) -> None:
        metadata = TableDefinition.create(_SCHEMA, TableForm()).to_metadata()
        log.begin().commit({"by": "first"}, writer="test", metadata=metadata)

    def _fail(self, fault: Fault, path: str = r"_delta_log/0+\d+\.json") -> None:
        self._server.plan(
            Fault(self._place.method, path, fault.times, fault.status, fault.seconds, fault.lose_answer, fault.held)
        )

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
        read = DeltaTable(f"{self._place.readable}/plain", storage_options=dict(self._place.options))
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

    def again(self) -> Any:
        """A table that is deleted after three commits and created again at the same place."""
        log = self._table("again")
        for number in range(2):
            log.begin().commit({"number": number}, writer="test")
        first = log.begin().state
        delete_folder(self._spark, log.path)
        log = TableLog(self._spark, log.path)
        log.forget()
        self._create(log)
        second = log.begin().state
        return [first.version, second.version, second.stored, first.metadata["id"] != second.metadata["id"]]

    def late(self) -> Any:
        """A commit that the store gets only after another run's commit of the same version."""
        log = self._table("late")
        transaction = log.begin()
        self._fail(Fault(held=True), rf"_delta_log/{1:020}\.json")
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(code_of(lambda: transaction.commit({}, writer="late"))))
        thread.start()
        until = time.monotonic() + 120
        while not self._server.held:
            assert time.monotonic() < until
            time.sleep(0.05)
        files = commit_files(self._spark, f"{log.path}/_delta_log")
        assert files.create(f"{1:020}.json", b'{"commitInfo":{"by":"the newer run"}}')
        self._server.release()
        thread.join()
        return [answers[0], b"the newer run" in files.read(f"{1:020}.json")]

    def race(self) -> Any:
        """For each version, how many of several writers at once are said to have written it, and whether it has the content of that one."""
        files = commit_files(self._spark, f"{self._root}/race/_delta_log")
        return [self._race(files, f"{version:020}.json") for version in range(_RACES)]

    def _race(self, files: Any, name: str) -> Any:
        won: list[bytes] = []

        def write(content: bytes) -> None:
            if files.create(name, content):
                won.append(content)

        threads = [threading.Thread(target=write, args=(b"%d" % number,)) for number in range(_AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [len(won), files.read(name) == won[0]]

    def faults(self, *more: Fault) -> Any:
        """Refused, throttled, lost and slow writes of commits: the versions after each."""
        log = self._table("faults")
        versions = []
        for fault in (*_FAULTS, *more):
            self._fail(fault)
            log.begin().commit({"fault": str(fault)}, writer="test")
            versions.append(log.begin().state.version)
        return versions

    def expired(self) -> Any:
        """Credentials that are refused during a commit, and one after they were renewed."""
        log = self._table("expired")
        self._fail(Fault(status=401, times=1000))
        code = code_of(lambda: log.begin().commit({"n": 1}, writer="test"))
        self._server.clear()
        log.begin().commit({"n": 2}, writer="test")
        state = log.begin().state
        return [code, state.version, state.stored]

    def refused(self, *statuses: int) -> list[str]:
        """The codes with which a log that may not be read is opened, one for each status of the answer; then with that right."""
        log = self._table("refused")
        codes = []
        for status in statuses:
            self._server.plan(Fault("", "refused", 1000, status))
            codes.append(code_of(log.forget))
            self._server.clear()
        return [*codes, code_of(log.forget)]

    def renames(self) -> bool:
        """Whether the store renames a folder as one step."""
        return renames_at_once(self._spark, self._root)

    def unproved(self, name: str) -> str:
        """The code with which a table's creation ends, when the store is tried again."""
        ConditionalCommit._proved.clear()
        return code_of(lambda: self._table(name))


def show(found: Mapping[str, Any]) -> None:
    """Print what a test reads."""
    sys.stdout.write(f"found {json.dumps(found)}\n")
