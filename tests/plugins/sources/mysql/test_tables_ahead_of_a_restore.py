"""After a restore in place to a state that lacks what a table holds already, the table is copied again; others go on."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from replicator_sdk.errors import TableHistoryLostError
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_mysql.offset import MySqlOffset
from tests.end_to_end.mysql.test_restored import SERVERS, put_back
from tests.plugins.sources.mysql.pipeline import Pipeline
from tests.plugins.sources.mysql.pump import Pump
from tests.plugins.sources.mysql.test_gtid_domains import ends_after_commit
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import Release
from tests.services.mysql.server import MysqlDatabase, copy_folder


def write(db: MysqlDatabase, word: str, count: int, *tables: str) -> None:
    """Transactions of one size each, whatever the word."""
    for number in range(count):
        for table in tables:
            db.execute(f"INSERT INTO {table} (v) VALUES ('{word} {number:03}')")


@SERVERS
@pytest.mark.parametrize("written", [1, 8], ids=["shorter", "longer"])
def test_a_table_that_is_ahead_of_a_copy_that_was_put_back_is_copied_again_and_skips_nothing(
    release: Release, gtid: bool, written: int, mysql_server: PrivateMysql, tmp_path: Path
) -> None:
    """The copy has the saved offset; the server writes files of the same names and gives the same numbers again."""
    server = mysql_server(release, gtid=gtid)
    with server.database() as db:
        for table in ("t", "u"):
            db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY AUTO_INCREMENT, v varchar(20))")
        pipeline = Pipeline(db, tmp_path)
        pipeline.run()
        write(db, "saved", 1, "t", "u")
        pipeline.run()
        server.stop()
        copy_folder(server.data, tmp_path / "copy")
        server.start()
        write(db, "first", 4, "t")
        ends_after_commit(pipeline, 1)
        server.stop()
        put_back(server, tmp_path / "copy")
        write(db, "other", written, "t", "u")
        with pytest.raises(TableHistoryLostError, match=r"RPL-3814.*\.t\b"):
            pipeline.run()
        for number in range(3):
            pipeline.run()
            assert pipeline.target_rows() == pipeline.source_rows()
            db.execute("UPDATE t SET v = 'later'")
            write(db, f"later {number}", 2, "t", "u")


@SERVERS
def test_a_table_that_is_ahead_goes_on_where_the_server_was_only_restarted(
    release: Release, gtid: bool, mysql_server: PrivateMysql, tmp_path: Path
) -> None:
    server = mysql_server(release, gtid=gtid)
    with server.database() as db:
        for table in ("t", "u"):
            db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY AUTO_INCREMENT, v varchar(20))")
        pipeline = Pipeline(db, tmp_path)
        pipeline.run()
        for stop in (server.stop, server.kill):
            write(db, "ahead", 3, "t")
            ends_after_commit(pipeline, 1)
            stop()
            server.start()
        write(db, "after", 1, "t", "u")
        pipeline.run()
        assert pipeline.target_rows() == pipeline.source_rows()


@SERVERS
def test_a_table_whose_position_comes_from_its_copy_is_copied_again_after_a_restore_that_lacks_it(
    release: Release, gtid: bool, mysql_server: PrivateMysql, tmp_path: Path
) -> None:
    """The restored server writes a file of the same name, and more into it: by its size nothing is missing."""
    server = mysql_server(release, gtid=gtid)
    with server.database() as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, v varchar(20))")
        db.execute("CREATE TABLE keyless (v varchar(20))")
        pump = Pump(db, "t", "keyless")
        saved = pump.prepare()
        server.stop()
        copy_folder(server.data, tmp_path / "copy")
        server.start()
        write(db, "first", 3, "t")
        position = pump.snapshot("t")[0].position
        exact = pump.snapshot("keyless")[0].position
        assert isinstance(position, MySqlOffset)
        assert isinstance(exact, MySqlOffset)
        assert position.proof == exact.proof != ""

        def resume() -> None:
            definition = replace(pump.definition, reached={pump.table("t"): position}.get)
            reader = pump.source.create_reader(definition, pump.context, CollectingEmitter())
            with contextlib.closing(reader):
                reader.initialize(saved)

        resume()
        server.stop()
        put_back(server, tmp_path / "copy")
        write(db, "other", 20, "t")
        with pytest.raises(TableHistoryLostError, match=r"RPL-3814.*\.t\b"):
            resume()
        saved = Pump(db, "t", "keyless").prepare()
        resume()  # the saved offset is beyond it
