"""What errors of the source `archive` advise is done as it is printed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from replicator_sdk import failpoint
from tests.end_to_end.replicator import mysql_source
from tests.follows import follows
from tests.runtime.cli.next_steps.operator_shop import OperatorShop
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.archive.rebuilt import listed
from tests.runtime.engine.archive.test_archive import archived
from tests.runtime.engine.archive.test_replays import age
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.test_run import fill

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from tests.services.mysql.server import MysqlDatabase


class Replay(OperatorShop):
    """A pipeline from the archive of a shop, with the same database and with tables of its own at the target."""

    def __init__(self, writer: OperatorShop, archive: Path) -> None:
        folder = writer.path.with_name("replay")
        folder.mkdir()
        super().__init__(folder, writer._replicator)
        self.path = writer.path
        self.document["name"] = "replay"
        self.storage = TargetStorage()
        plugin = {"name": "archive", "type": "cdcSource", "properties": {"path": str(archive)}}
        self.document["stages"][0]["plugin"] = plugin

    def replicator(self, *words: object) -> Result:
        """The command, with its own storage."""
        others, in_memory_target.STORAGE = in_memory_target.STORAGE, self.storage
        try:
            return super().replicator(*words)
        finally:
            in_memory_target.STORAGE = others

    def assert_equal(self, *tables: str) -> None:
        """As of the shop."""
        others, in_memory_target.STORAGE = in_memory_target.STORAGE, self.storage
        try:
            super().assert_equal(*tables)
        finally:
            in_memory_target.STORAGE = others


@follows("RPL-3554", "RPL-3556")
def test_what_an_archive_has_pruned_is_copied_again_into_it(shop: OperatorShop) -> None:
    archive = archived(shop, keepDays=30)
    fill(shop)
    shop.until_current()
    replay = Replay(shop, archive)
    replay.until_current()
    shop.sql("INSERT INTO customers VALUES (100, 'old')")
    shop.until_current()
    for number in range(2):
        if number == 0:
            age(archive)
        shop.sql(f"INSERT INTO customers VALUES ({101 + number}, 'new')")
        shop.until_current()
    refused = replay.refused("RPL-3554", "run", replay.file, "--until-current")
    replay.follow(refused, "RPL-3554", "reset")
    refused = replay.refused("RPL-3556", "run", replay.file, "--until-current")
    replay.follow(refused, "RPL-3556", "table resync", str(shop.file), "customers", "notes", "--in-place")
    shop.until_current()
    replay.until_current()
    replay.assert_equal()


@follows("RPL-3555")
def test_a_table_whose_file_is_missing_is_copied_again_into_the_archive(shop: OperatorShop) -> None:
    archive = archived(shop)
    fill(shop)
    shop.until_current()
    replay = Replay(shop, archive)
    replay.until_current()
    before = listed(archive)
    shop.sql("INSERT INTO customers VALUES (100, 'x')")
    shop.until_current()
    [name] = listed(archive) - before
    (archive / name).unlink()
    refused = replay.refused("RPL-3555", "run", replay.file, "--until-current")
    replay.follow(refused, "RPL-3555", "table resync", str(shop.file), "customers", "--in-place")
    shop.until_current()
    replay.follow(refused, "RPL-3555", "table retry")
    replay.until_current()
    replay.assert_equal()


@follows("RPL-3559")
def test_a_table_whose_values_were_computed_again_is_copied_again_into_the_archive(
    shop: OperatorShop, mariadb_database: MysqlDatabase
) -> None:
    """The pipeline that writes the archive ended between the change of structure and the copy that follows it."""
    database = mariadb_database
    shop.read(*mysql_source(database))
    shop.document["tables"] = [{"database": database.name, "table": "*"}]
    database.execute("CREATE TABLE days (id int PRIMARY KEY, day varchar(20))")
    database.execute("INSERT INTO days VALUES (1, '2024-1-5'), (2, '2024-02-03')")
    archive = archived(shop)
    shop.until_current()
    database.execute("ALTER TABLE days MODIFY day date")
    database.execute("INSERT INTO days VALUES (3, '2024-03-03')")
    shop.document["retries"] = {"maxDurationSeconds": 0}
    for point in ("engine.snapshot.planned", "engine.archive.listed"):
        failpoint.arm(f"{point}=raise")
        assert shop.replicator("run", shop.file, "--until-current").exit_code
    failpoint.arm("")
    replay = Replay(shop, archive)
    replay.refused("RPL-3559", "run", replay.file, "--until-current")
    refused = replay.refused("RPL-3559", "run", replay.file, "--until-current")
    replay.follow(refused, "RPL-3559", "table resync", str(shop.file), "days", "--in-place")
    for number in range(3):
        shop.until_current()
        replay.until_current()
        for storage in (in_memory_target.STORAGE, replay.storage):
            rows = Counter(tuple(row.values()) for row in storage.rows("days"))
            assert rows == Counter(map(tuple, database.query("SELECT * FROM days")))
        database.execute(f"INSERT INTO days (id, day) VALUES ({10 + number}, '2025-01-01')")
        database.execute("UPDATE days SET day = day + INTERVAL 1 DAY WHERE id = 2")
        database.execute(f"ALTER TABLE days ADD COLUMN more_{number} int")
