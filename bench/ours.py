"""The replicator, as a person runs it: `replicator run pipeline.json`, into Delta."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from bench.data.source import Fingerprint, Source
from bench.process import Cost, run
from tests.services.processes import spawn

_REPLICATOR = [sys.executable, "-c", "from replicator_runtime.cli import main; main()"]
_COMMAND = [*_REPLICATOR, "run"]


class Ours:
    """One replicator of some tables; state and lake below `folder`, which it makes.

    Args:
        orders: Where the tables are.
        folder: For state and lake.
        tables: Their names.
        source: Plugin and properties, when it does not read them there itself.
        settings: Further keys of the pipeline.
    """

    def __init__(
        self,
        orders: Source,
        folder: Path,
        tables: list[str],
        source: tuple[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        folder.mkdir(parents=True)
        self._orders, self._folder, self._tables = orders, folder, tables
        self._source = source or (orders.plugin, orders.properties(self.reader))
        self.pipeline = folder / "pipeline.json"
        self.pipeline.write_text(json.dumps(self._document(settings)))

    def target(self) -> tuple[str, dict[str, Any]]:
        """Plugin and properties."""
        return "delta", {"path": str(self.lake)}

    def _document(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        target, properties = self.target()
        return {
            "name": "bench",
            "offsetBasePath": str(self._folder / "state"),
            "stages": [
                {
                    "name": "in",
                    "plugin": {
                        "name": self._source[0],
                        "type": "cdcSource",
                        "properties": self._source[1],
                    },
                },
                {
                    "name": "out",
                    "plugin": {"name": target, "type": "cdcTarget", "properties": properties},
                },
            ],
            "connections": [{"from": "in", "to": "out"}],
            "tables": [{self._orders.level: self._orders.parent, "table": name} for name in self._tables],
            "retries": {"maxDurationSeconds": 60},
            **settings,
        }

    @property
    def lake(self) -> Path:
        """Where the tables are."""
        return self._folder / "lake"

    @property
    def reader(self) -> str:
        """What the server knows us as, one for each folder."""
        return "bench_" + "".join(c if c.isalnum() else "_" for c in self._folder.name.lower())

    @property
    def log(self) -> Path:
        """What the runs said."""
        return self._folder / "log"

    def until_current(self) -> Cost:
        """Run until everything committed so far is at the target; checks that source and target agree."""
        cost = run([*_COMMAND, self.pipeline, "--until-current", "--log-level", "info"], self.log)
        for table in self._tables:
            found, wanted = self.fingerprint(table), self._orders.fingerprint(table)
            if found != wanted:
                raise AssertionError(f"{table}: the copy has {found}, the source {wanted}")
        return cost

    def start(self) -> subprocess.Popen[bytes]:
        """Start a run that goes on; the caller ends it."""
        return spawn([*_COMMAND, self.pipeline], log=self.log)

    def command(self, *arguments: str | Path) -> None:
        """Ask the run for something, as an operator does.

        Raises:
            RunError: When the command does not end with 0.
        """
        run([*_REPLICATOR, *arguments], self.log)

    def table(self, table: str) -> Path:
        """The folder of one table."""
        return self.lake / self._orders.parent / table

    def fingerprint(self, table: str) -> Fingerprint:
        """The copy's, read by a reader that shares no code with us."""
        query = "SELECT count(*) AS n, sum(id) AS i, sum(quantity) AS q FROM copy"
        found = QueryBuilder().register("copy", DeltaTable(str(self.table(table)))).execute(query)
        values = [column[0].as_py() for batch in found for column in _columns(batch)]
        return Fingerprint(*(int(value or 0) for value in values))


def decoding(orders: Source, table: str, folder: Path) -> Callable[[int], Cost]:
    """Our source alone, from now on: each call reads that many changes of `table` and drops them.

    The seconds are those its process says, from the reader's start to the last change.
    """
    folder.mkdir(parents=True)
    log, settings = folder / "decode.log", json.dumps(orders.properties("bench_decode"))

    def drain(changes: int) -> Cost:
        module = [sys.executable, "-m", "bench.decode", orders.plugin, settings]
        cost = run([*module, table, str(changes), folder / "kept.json"], log)
        found, seconds = log.read_text().split()[-2:]
        if int(found) != changes:
            raise AssertionError(f"our source saw {found} of {changes} changes")
        return replace(cost, seconds=float(seconds))

    drain(0)
    return drain


def _columns(batch: Any) -> list[Any]:
    import pyarrow as pa

    return list(pa.record_batch(batch).columns)
