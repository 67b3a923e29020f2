"""A seeded history of a shop, spread by key over the partitions of a log, and a pipeline that reads it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import RunResult, run
from replicator_sdk import DeltaSource, DeltaTarget, DMLOperation, TableId, TableSchema
from replicator_sdk.testing.histories.history import Step, column
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.partitioned import LogFolder, PartitionedSource
from replicator_sdk.testing.simulate import Simulator

_CUSTOMERS = TableSchema(
    TableId("shop", "customers", "public"),
    (column("id", "int64 not null"), column("name", "string"), column("note", "string")),
    ("id",),
)
_STOCK = TableSchema(
    TableId("shop", "stock", "public"),
    (column("place", "string"), column("item", "int64"), column("n", "int64")),
    ("place", "item"),
)
_NOTES = TableSchema(TableId("shop", "notes", "public"), (column("text", "string"),))
_LATE = TableSchema(
    TableId("shop", "late", "public"), (column("id", "int64 not null"), column("text", "string")), ("id",)
)


@dataclass
class Host:
    """The two plugins of a pipeline."""

    taker: type[DeltaTarget]
    giver: type[DeltaSource] = PartitionedSource

    def source(self, name: str) -> type[DeltaSource]:
        return self.giver

    def target(self, name: str) -> type[DeltaTarget]:
        return self.taker


@dataclass
class PartitionedShop:
    """The shop as its own database sees it, the log it leaves, and what random trade does to both."""

    folder: Path
    seed: int
    partitions: int = 4
    repeats: bool = False
    chance: random.Random = field(init=False)
    simulator: Simulator = field(init=False)
    _clock: int = 1_700_000_000_000_000
    _extra: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.simulator = Simulator({"customers": _CUSTOMERS, "stock": _STOCK, "notes": _NOTES})
        self.log = LogFolder(self.folder / "log", self.partitions)

    @property
    def schemas(self) -> list[TableSchema]:
        """The tables as they are now."""
        return [table.schema for table in self.simulator.reference.tables.values()]

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """A table's rows now."""
        return self.simulator.reference.tables[table].rows

    def trade(self, steps: int = 60) -> None:
        """Random changes."""
        for _ in range(steps):
            self.execute(self._step())

    def grow(self) -> None:
        """A table gets another column, and uses it."""
        self._extra += 1
        name = f"extra{self._extra}"
        table = self.chance.choice(["customers", "stock"])
        self.execute(Step("add_column", table, {"name": name, "type": "int64", "default": None}))
        for row in list(self.simulator.table(table).rows)[:5]:
            key = {k: row[k] for k in self.simulator.table(table).schema.primary_key}
            self.execute(Step("update", table, {"where": key, "set": {name: self.chance.randrange(100)}}))

    def open_late_table(self) -> None:
        """A table that was not there before."""
        self.simulator.create("late", _LATE)
        for number in range(8):
            self.execute(Step("insert", "late", {"rows": [{"id": number, "text": f"t{number}"}]}))

    def execute(self, step: Step) -> None:
        """Carry out one step, and write it to the log."""
        table = self.simulator.table(step.table)
        for change in self.simulator.execute(step, MemoryOffset(0)):
            if isinstance(change, RowChange):
                self._clock += 1000
                self.log.append([self._whole(change, table.rows)], self._clock)

    def _whole(self, change: RowChange, rows: Sequence[Mapping[str, Any]]) -> RowChange:
        """A move carries the whole row, as Debezium's insert does; another update may leave a column out."""
        if change.operation is not DMLOperation.UPDATE or change.before is None or not change.schema.primary_key:
            return change
        row = {**change.before, **change.row}
        found = next(r for r in rows if all(r[k] == row[k] for k in change.schema.primary_key))
        return replace(change, row=dict(found), unchanged=frozenset())

    def _step(self) -> Step:
        kind = self.chance.choice(["customers"] * 4 + ["stock"] * 3 + ["notes"] * 2)
        rows = self.simulator.table(kind).rows
        if kind == "notes":
            return self._note(rows)
        row = self._row(kind)
        key = self.simulator.table(kind).schema.primary_key
        where = {k: row[k] for k in key}
        if not any(all(r[k] == row[k] for k in key) for r in rows):
            return Step("insert", kind, {"rows": [row]})
        action = self.chance.choice(["delete", "update", "update", "move"])
        if action == "delete":
            return Step("delete", kind, {"where": where})
        to = self._row(kind)
        if action == "move" and not any(all(r[k] == to[k] for k in key) for r in rows):
            return Step("update", kind, {"where": where, "set": {k: to[k] for k in key}})
        if kind == "stock":
            return Step("update", kind, {"where": where, "set": {"n": to["n"]}})
        unsent = self.chance.choice([[], ["note"]])
        return Step("update", kind, {"where": where, "set": {"name": to["name"]}, "unchanged": unsent})

    def _note(self, rows: Sequence[Mapping[str, Any]]) -> Step:
        text = self.chance.choice(["a", "b", None])
        if self.chance.random() < 0.6 or not any(r["text"] == text for r in rows):
            return Step("insert", "notes", {"rows": [{"text": text}] * self.chance.randint(1, 3)})
        if self.chance.random() < 0.5:
            return Step("delete", "notes", {"where": {"text": text}, "limit": 1})
        return Step("update", "notes", {"where": {"text": text}, "set": {"text": "c"}, "limit": 2})

    def _row(self, kind: str) -> dict[str, Any]:
        pick = self.chance.randrange
        if kind == "customers":
            return {"id": pick(25), "name": f"n{pick(100)}", "note": f"long {pick(100)}"}
        return {"place": self.chance.choice(["x", "y", None]), "item": pick(8), "n": pick(100)}

    def document(self, target: str, settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The pipeline JSON."""
        source = {"folder": str(self.log.path), "partitions": self.partitions, "repeats": self.repeats}
        return {
            "name": "shop",
            "offsetBasePath": str(self.folder / "state"),
            "stages": [
                {"name": "log", "plugin": {"name": "partitioned", "type": "cdcSource", "properties": source}},
                {"name": "lake", "plugin": {"name": target, "type": "cdcTarget", "properties": dict(settings)}},
            ],
            "connections": [{"from": "log", "to": "lake"}],
            "retries": {"maxDurationSeconds": 10, "delaySeconds": 0.05},
            "batch": {"maxIntervalSeconds": 0.05},
            "edits": "apply",
            **more,
        }


def run_pipeline(document: dict[str, Any], host: Host | type[DeltaTarget], **more: Any) -> RunResult:
    """Run a pipeline in this process, into a target or with the plugins of `host`."""
    plugins = host if isinstance(host, Host) else Host(host)
    pipeline = build_pipeline(document, host=plugins)  # type: ignore[arg-type]
    return run(pipeline, **{"until_current": True, **more})
