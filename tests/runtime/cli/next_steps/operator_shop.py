"""A SQLite database, its pipeline's file, and the command `replicator` in this process, for tests that do what errors advise."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import run
from replicator_runtime.plugin_host import PluginHost
from replicator_state import ReplicatorDirectory
from tests.end_to_end.commands.two_tables import files_of
from tests.end_to_end.comparison import table_rows
from tests.follows import advised
from tests.runtime.engine.stream.test_paused_tables import change_more
from tests.runtime.engine.test_run import Shop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typer.testing import Result

    from replicator_runtime.engine.worker import RunResult
    from tests.runtime.cli.conftest import Replicator

PLUGINS = """
from replicator_sdk import FixedTables, hookimpl
from replicator_source_sqlite.plugin import SqliteSource
from tests.runtime.engine.in_memory_target import InMemoryTarget

class OtherSource(SqliteSource):
    name = "other"

class ListedSource(SqliteSource):
    name = "listed"

    def create_table_registry(self):
        with super().create_table_registry() as registry:
            return FixedTables(*(registry.describe_table(one.table) for one in registry.list_tables()))

@hookimpl
def delta_sources(): return [OtherSource, ListedSource]

@hookimpl
def delta_targets(): return [InMemoryTarget]
"""


class OperatorShop(Shop):
    """The target is in this process's memory, or Delta.

    Args:
        folder: Of database, pipeline and state.
        replicator: Runs the command.
        lake: Whether the target is Delta; its tables are below `folder`.
    """

    def __init__(self, folder: Path, replicator: Replicator, *, lake: bool = False) -> None:
        super().__init__(folder)
        self.file, self.lake = folder / "pipeline.json", folder / "lake"
        self._replicator, self._is_lake = replicator, lake
        if lake:
            self.document["stages"][1]["plugin"] = {
                "name": "delta", "type": "cdcTarget", "properties": {"path": str(self.lake)},
            }  # fmt: skip

    @property
    def base(self) -> str:
        """Where the state is."""
        return str(self.document["offsetBasePath"])

    @property
    def directory(self) -> ReplicatorDirectory:
        """The state."""
        return ReplicatorDirectory(self.base, "default", "shop")

    def read(self, plugin: str, properties: Mapping[str, Any]) -> None:
        """Have another source than the database in the folder."""
        self.document["stages"][0]["plugin"] = {"name": plugin, "type": "cdcSource", "properties": dict(properties)}

    def replicator(self, *words: object) -> Result:
        """The command, with the pipeline's file as the document is now."""
        self.file.write_text(json.dumps(self.document))
        done = self._replicator(*words)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done

    def done(self, *words: object, status: int = 0) -> Result:
        """The command; it ends with this exit code."""
        ended = self.replicator(*words)
        assert ended.exit_code == status, ended.output
        return ended

    def until_current(self, status: int = 0) -> Result:
        """`replicator run --until-current`."""
        return self.done("run", self.file, "--until-current", status=status)

    def refused(self, code: str, *words: object) -> Result:
        """The command; it ends with this error."""
        ended = self.replicator(*words)
        assert f"error {code}: " in ended.stderr, ended.output
        return ended

    def follow(self, refused: Result, code: str, command: str, *more: str, status: int = 0) -> Result:
        """Run the command that an error printed as its next step, as it is printed; nothing is left in it to fill in.

        Args:
            refused: What printed the error.
            code: The error's.
            command: Which of the commands of its next step.
            more: Options that the text beside the command names, or without which a run does not end.
            status: The exit code that is expected.
        """
        printed = [line for line in refused.output.splitlines() if f"{code}: " in line]
        words = advised([line.partition("Next: ")[2] for line in printed], command, more)
        more = tuple(word for word in more if word not in words)
        ended = self.replicator(*words, *more)
        if "error RPL-1228: " in ended.stderr:  # the tests have no terminal to be asked at
            ended = self.replicator(*words, *more, "--yes")
        assert ended.exit_code == status, ended.output
        return ended

    def run(self, **more: Any) -> RunResult:
        """A run, with the plugins that are installed."""
        return run(build_pipeline(self.document, host=PluginHost()), **{"until_current": True, **more})

    def goes_on(self) -> None:
        """See that the state is whole: runs after more changes, also of structure, end equal."""
        for number in range(2):
            change_more(self, number)
            self.sql(f"ALTER TABLE customers ADD COLUMN later_{number} TEXT DEFAULT 'x'")
            self.until_current()
            self.assert_equal()

    def delta(self, table: str) -> DeltaTable:
        """A table in the lake."""
        return DeltaTable(str(self.lake / "main" / table))

    def damage(self, table: str) -> None:
        """Another program takes all files out of a table in the lake."""
        log = self.lake / "main" / table / "_delta_log"
        removed = [{"remove": {**file, "deletionTimestamp": 1, "dataChange": True}} for file in files_of(log)]
        with (log / f"{len(list(log.glob('*.json'))):020}.json").open("x") as commit:
            commit.write("\n".join(map(json.dumps, removed)))

    def assert_equal(self, *tables: str) -> None:
        """See that source and target hold the same rows equally often."""
        if not self._is_lake:
            super().assert_equal(*tables)
            return
        for table in tables or ("customers", "notes"):
            wanted = self.source_rows(table)
            names = list(wanted[0])
            found = Counter(table_rows(self.delta(table), names))
            assert found == Counter(tuple(row.values()) for row in wanted), table
