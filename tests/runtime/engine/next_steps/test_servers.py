"""What errors of PostgreSQL and MariaDB advise is tried: the error, `replicator reset`, and runs that go on right."""

from __future__ import annotations

import re
import shutil
import struct
import zlib
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.run_state.open_run import directory_of, open_run
from replicator_runtime.engine.run_state.plugin_contexts import source_key
from replicator_runtime.engine.worker import run
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError
from replicator_source_mysql import MySqlOffset, MySqlSource
from replicator_source_mysql.binlog.batches import batch_builder, column_defaults, json_updates
from replicator_source_mysql.binlog.dump import binlog_stream
from replicator_source_mysql.binlog.event import Kind
from replicator_source_mysql.connect.packets import PacketReader, Packets
from replicator_source_mysql.ddl.apply import apply_effects
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.effect import AlterTable, Unreadable
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.streaming import reader
from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY
from replicator_source_mysql.types.json.diff import updated_documents
from replicator_source_postgres import PostgresSource
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Host, Shop, shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.config import Pipeline
    from replicator_sdk import DeltaSource
    from replicator_source_mysql.ddl.apply.known_tables import KnownTables
    from replicator_source_mysql.ddl.apply.table_change import TableChange
    from replicator_source_mysql.types.values.out_of_range import ColumnPolicy
    from tests.services.mysql.server import MysqlDatabase
    from tests.services.postgres.server import PostgresDatabase

__all__ = ["shop"]


class ServerHost(Host):
    """A server's source, and the target in this process."""

    def __init__(self, source: type[DeltaSource]) -> None:
        self._source = source

    def source(self, name: str) -> Any:
        return self._source


class ServerShop:
    """Two tables of a server, and their replicator."""

    def __init__(self, shop: Shop, source: type[DeltaSource], database: Any, query: Callable[[str], Any]) -> None:
        self.database, self._query, self._source, self._shop = database, query, source, shop
        shop.document["stages"][0]["plugin"] = {
            "name": source.name,
            "type": "cdcSource",
            "properties": {
                "host": database.host, "port": database.port, "user": database.user, "password": database.password,
                "sslMode": "disable", **({"database": database.name} if source is PostgresSource else {}),
            },
        }  # fmt: skip
        if source is MySqlSource:
            shop.document["tables"] = [{"database": database.name, "table": "*"}]
        self.state = shop.document["offsetBasePath"]
        for table in ("customers", "notes"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20))")
            database.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")

    def sign_in(self, user: str, password: str) -> None:
        """The pipeline uses another account."""
        self._shop.document["stages"][0]["plugin"]["properties"] |= {"user": user, "password": password}

    def stop_at_errors_of_tables(self) -> None:
        """An error of a table ends the run."""
        self._shop.document["onTableError"] = "stop"

    def pipeline(self) -> Pipeline:
        return build_pipeline(self._shop.document, host=ServerHost(self._source))  # type: ignore[arg-type]

    def run(self) -> None:
        assert run(self.pipeline(), until_current=True).reached_goal

    def three_runs(self, *tables: str) -> None:
        """After each, source and copy are equal; rows and columns change between."""
        for number in range(3):
            self.run()
            for table in tables or ("customers", "notes"):
                found = Counter(tuple(row.values()) for row in in_memory_target.STORAGE.rows(table))
                assert found == Counter(map(tuple, self._query(f"SELECT * FROM {table}"))), table
            self.database.execute(
                f"INSERT INTO {tables[0] if tables else 'customers'} (id, name) VALUES ({100 + number}, 'later')"
            )
            self.database.execute("UPDATE notes SET name = 'changed' WHERE id = 2")
            self.database.execute(f"ALTER TABLE notes ADD more_{number} int")


@pytest.fixture
def postgres(shop: Shop, postgres_database: PostgresDatabase) -> ServerShop:
    return ServerShop(shop, PostgresSource, postgres_database, postgres_database.execute)


@pytest.fixture
def mariadb(shop: Shop, mariadb_database: MysqlDatabase) -> ServerShop:
    return ServerShop(shop, MySqlSource, mariadb_database, mariadb_database.query)


@pytest.fixture
def mysql(shop: Shop, mysql_database: MysqlDatabase) -> ServerShop:
    return ServerShop(shop, MySqlSource, mysql_database, mysql_database.query)


def read_by_another(shop: ServerShop) -> None:
    slot = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    shop.database.execute("DELETE FROM customers WHERE id = 1")
    shop.database.execute(f"SELECT pg_replication_slot_advance(({slot}), pg_current_wal_lsn())")


def without_publication(shop: ServerShop) -> None:
    [(name,)] = shop.database.execute("SELECT pubname FROM pg_publication")
    shop.database.execute(f'DROP PUBLICATION "{name}"')
    shop.database.execute("DELETE FROM customers WHERE id = 1")


def save(shop: ServerShop, change: Callable[[Any], Any]) -> None:
    """The saved offset is another one, as when the server was restored since."""
    kind = shop.pipeline().source.offset_type
    with open_run(shop.pipeline()) as opened:
        saved = opened.offsets.latest()
        assert saved is not None
        opened.offsets.save(replace(saved, fields=dict(change(kind.from_fields(saved.fields)).fields())))


def restored(shop: ServerShop) -> None:
    save(shop, lambda offset: replace(offset, lsn=1 << 60))


def failed_over(shop: ServerShop) -> None:
    save(shop, lambda offset: replace(offset, timeline=offset.timeline + 7))


@follows("RPL-3204", "RPL-3208", "RPL-3205", "RPL-3211")
@pytest.mark.parametrize(
    ("lose", "code"),
    [
        (read_by_another, "RPL-3204"), (without_publication, "RPL-3208"), (restored, "RPL-3205"),
        (failed_over, "RPL-3211"),
    ],
)  # fmt: skip
def test_after_a_reset_postgres_is_copied_again(postgres: ServerShop, lose: Callable[..., None], code: str) -> None:
    postgres.run()
    lose(postgres)
    with pytest.raises(HistoryLostError, match=f"{code}.*replicator reset PIPELINE") as lost:
        postgres.run()
    for step in re.findall(r"SELECT pg_drop_replication_slot\('\w+'\)", str(lost.value)):
        postgres.database.execute(step)
    reset(postgres.pipeline())
    postgres.three_runs()


@follows("RPL-3214")
def test_a_slot_whose_state_was_deleted_is_passed_over_by_a_reset(postgres: ServerShop) -> None:
    postgres.run()
    shutil.rmtree(postgres.state)
    postgres.database.execute("DELETE FROM customers WHERE id = 1")
    with pytest.raises(NeedsUserError, match=r"RPL-3214.*replicator reset PIPELINE --lost-state"):
        postgres.run()
    reset(postgres.pipeline(), state_was_lost=True)
    postgres.three_runs()


def history(shop: ServerShop, value: bytes | None) -> None:
    """The stored schema history is this, or is gone, beside an offset of an earlier release, which does not say which history it is of."""
    with open_run(shop.pipeline()) as opened:
        saved = opened.offsets.latest()
        assert saved is not None
        opened.offsets.save(replace(saved, values={}))
        if value is None:
            opened.store.delete(source_key(HISTORY_KEY))
        else:
            opened.store.put(source_key(HISTORY_KEY), value)


@follows("RPL-3791", "RPL-3752")
@pytest.mark.parametrize(("value", "code"), [(None, "RPL-3791"), (b"no history", "RPL-3752")])
def test_without_the_schema_history_a_reset_copies_everything_again(
    mariadb: ServerShop, value: bytes | None, code: str
) -> None:
    mariadb.run()
    mariadb.database.execute("DELETE FROM customers WHERE id = 1")
    history(mariadb, value)
    with pytest.raises(HistoryLostError, match=f"{code}.*replicator reset PIPELINE"):
        mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()


def damage(monkeypatch: pytest.MonkeyPatch, after: int, kind: int, other: int | None) -> None:
    """The server's events of a kind, after a position, have another one, or a flipped bit."""

    class Damaged(PacketReader):
        def take(self) -> Packets:
            found = super().take()
            data = found.data.copy()
            for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True):
                body = start + 1  # the packet's own byte
                ends_at = int.from_bytes(data[body + 13 : body + 17].tobytes(), "little")
                if data[body + 4] != kind or ends_at <= after:
                    continue
                if other is None:
                    data[end - 5] ^= 1
                else:
                    data[body + 4] = other
                    checksum = struct.pack("<I", zlib.crc32(data[body : end - 4].tobytes()))
                    data[end - 4 : end] = list(checksum)
            return Packets(data, found.start, found.end)

    monkeypatch.setattr(binlog_stream, "PacketReader", Damaged)


@follows("RPL-3707", "RPL-3708", "RPL-3709", "RPL-3788")
@pytest.mark.parametrize(
    ("kind", "other", "code"),
    [
        (Kind.XID, None, "RPL-3707"), (Kind.XID, Kind.INCIDENT, "RPL-3708"),
        (Kind.XID, Kind.EXECUTE_LOAD_QUERY, "RPL-3709"), (Kind.MARIADB_GTID, Kind.GTID_TAGGED, "RPL-3788"),
    ],
)  # fmt: skip
def test_after_an_event_that_cannot_be_followed_a_reset_copies_everything_again(
    mariadb: ServerShop, monkeypatch: pytest.MonkeyPatch, kind: int, other: int | None, code: str
) -> None:
    """Its bytes come from the server as they are in the log."""
    mariadb.run()
    with monkeypatch.context() as patch:
        damage(patch, mariadb.database.query("SHOW MASTER STATUS")[0][1], kind, other)
        mariadb.database.execute("DELETE FROM customers WHERE id = 1")
        with pytest.raises(ReplicatorError, match=f"{code}.*replicator reset PIPELINE"):
            mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()


class Ended(PacketReader):
    """The server ends the dump after what it had sent before, as when a file is purged that it has not opened yet."""

    def take(self) -> Packets:
        super().take()
        said = b"\xff" + (1236).to_bytes(2, "little") + b"#HY000could not find next log"
        return Packets(np.frombuffer(said, np.uint8), np.array([0], np.int64), np.array([len(said)], np.int64))


@follows("RPL-3805")
def test_after_the_server_has_no_more_of_its_log_a_reset_copies_everything_again(
    mariadb: ServerShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    mariadb.run()
    with monkeypatch.context() as patch:
        patch.setattr(reader, "is_same_file", lambda *_, **__: True)
        patch.setattr(binlog_stream, "PacketReader", Ended)
        mariadb.database.execute("DELETE FROM customers WHERE id = 1")
        with pytest.raises(HistoryLostError, match=r"RPL-3805.*replicator heal PIPELINE.*replicator reset PIPELINE"):
            mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()


def resync(shop: ServerShop, table: str) -> None:
    """`replicator table resync NAME TABLE --in-place`; the next run does it."""
    directory_of(shop.pipeline()).requests().submit("table.resync", {"tables": [table], "inPlace": True})


def resync_past_the_place(shop: ServerShop, code: str) -> None:
    """The table `notes` is copied; the place of the log before that is met once more, and the log goes on without the table."""
    resync(shop, "notes")
    with pytest.raises(ReplicatorError, match=code):
        shop.run()
    shop.run()


@follows("RPL-3790")
def test_a_table_whose_statement_is_not_understood_is_copied_again(
    mariadb: ServerShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is one that does not know a word of it."""

    def unread(effect: AlterTable, known: KnownTables) -> list[TableChange]:
        return apply_effects._unread(Unreadable((effect.table,), "it has a new word", "ALTER TABLE"), known)

    mariadb.run()
    with monkeypatch.context() as patch:
        patch.setitem(apply_effects._APPLY, AlterTable, unread)
        mariadb.database.execute("ALTER TABLE notes ADD word int")
        mariadb.database.execute("UPDATE notes SET word = 5 WHERE id = 2")
        for _ in range(2):
            with pytest.raises(ReplicatorError, match=r"RPL-3790.*table resync NAME TABLE --in-place"):
                mariadb.run()
        resync_past_the_place(mariadb, "RPL-3790")
    mariadb.three_runs()


def by_a_statement(shop: ServerShop) -> None:
    """Rows of the table `notes` are changed without row events."""
    with shop.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("UPDATE notes SET name = 'by a statement' WHERE id = 1")
        connection.commit()


@pytest.mark.parametrize("tables", [("notes",), ("customers", "notes")], ids=["an only table", "two tables"])
def test_where_an_error_of_a_table_ends_the_run_the_copy_goes_past_its_place(
    mariadb: ServerShop, tables: tuple[str, ...]
) -> None:
    mariadb.stop_at_errors_of_tables()
    if "customers" not in tables:
        mariadb.database.execute("DROP TABLE customers")
    mariadb.run()
    for _ in range(2):
        by_a_statement(mariadb)
        mariadb.database.execute("UPDATE notes SET name = 'by rows' WHERE id = 2")
        for _ in range(2):
            with pytest.raises(ReplicatorError, match=r"RPL-3793.*table resync NAME TABLE --in-place"):
                mariadb.run()
        resync_past_the_place(mariadb, "RPL-3793")
    mariadb.three_runs(*tables)


def test_a_table_whose_rows_a_logged_statement_changed_is_copied_again(mariadb: ServerShop) -> None:
    mariadb.run()
    by_a_statement(mariadb)
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=r"RPL-3793.*table resync NAME TABLE --in-place"):
            mariadb.run()
        resync(mariadb, "notes")
    mariadb.three_runs()


def without_log(shop: ServerShop, statement: str) -> None:
    """A statement that the server leaves out of its log."""
    with shop.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(statement)


@follows("RPL-3737")
def test_a_member_of_an_enum_that_the_log_does_not_announce_is_known_after_a_reset(mariadb: ServerShop) -> None:
    mariadb.database.execute("ALTER TABLE notes ADD mood ENUM('good', 'bad')")
    mariadb.run()
    without_log(mariadb, "ALTER TABLE notes MODIFY mood ENUM('good', 'bad', 'new')")
    mariadb.database.execute("UPDATE notes SET mood = 'new' WHERE id = 2")
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=r"RPL-3737.*replicator reset PIPELINE"):
            mariadb.run()
        resync(mariadb, "notes")  # the log before the copy, and after it, is decoded as before
    reset(mariadb.pipeline())
    mariadb.three_runs()


@follows("RPL-3703")
def test_a_column_that_the_log_does_not_announce_stops_its_table_and_is_known_after_a_reset(
    mariadb: ServerShop,
) -> None:
    """An online change of structure on a replica that became the primary, or by a tool that turns the log off."""
    mariadb.run()
    without_log(mariadb, "ALTER TABLE notes ADD word int")
    mariadb.database.execute("UPDATE notes SET word = 5 WHERE id = 2")
    for number in (11, 12):
        mariadb.database.execute(f"INSERT INTO customers VALUES ({number}, 'of the other table')")
        with pytest.raises(ReplicatorError, match=r"RPL-3703.*replicator reset PIPELINE") as stopped:
            mariadb.run()
        assert str(stopped.value.table).endswith("notes")
        assert number in [row["id"] for row in in_memory_target.STORAGE.rows("customers")]
    reset(mariadb.pipeline())
    mariadb.three_runs()


@follows("RPL-3750")
def test_a_table_whose_definition_the_history_does_not_have_is_copied_again(mariadb: ServerShop) -> None:
    """A former release has stored a statement that it did not understand."""
    mariadb.run()
    with open_run(mariadb.pipeline()) as opened:
        saved, stored = opened.offsets.latest(), opened.store.get(source_key(HISTORY_KEY))
        assert saved is not None
        assert stored is not None
        known = SchemaHistory.load(stored)
        statement = read_statement("ALTER TABLE notes FROBNICATE", Session(mariadb.database.name))
        known.apply(statement, MySqlOffset.from_fields(saved.fields))
        opened.store.put(source_key(HISTORY_KEY), known.dump())
    mariadb.database.execute("UPDATE notes SET name = 'x' WHERE id = 2")
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=r"RPL-3750.*table resync NAME TABLE --in-place"):
            mariadb.run()
    resync_past_the_place(mariadb, "RPL-3750")
    mariadb.three_runs()


@follows("RPL-3792")
def test_a_table_that_was_created_again_without_the_log_is_copied_again(mariadb: ServerShop) -> None:
    """As by a script that turns the log off for some of its statements."""
    mariadb.run()
    ((_, create),) = mariadb.database.query("SHOW CREATE TABLE notes")
    mariadb.database.execute("DROP TABLE notes")
    without_log(mariadb, create)
    mariadb.database.execute("INSERT INTO notes VALUES (2, 'made again')")
    mariadb.database.execute("INSERT INTO customers VALUES (11, 'of the other table')")
    with pytest.raises(ReplicatorError, match=r"RPL-3792.*table resync NAME TABLE --in-place"):
        mariadb.run()
    assert 11 in [row["id"] for row in in_memory_target.STORAGE.rows("customers")]
    resync(mariadb, "notes")
    mariadb.three_runs()


@follows("RPL-3738", "RPL-3739")
@pytest.mark.parametrize(("document", "code"), [(b"\xff\xff", "RPL-3738"), (b"\x00\x00\x00\x04\x00", "RPL-3739")])
def test_a_table_whose_documents_are_not_those_of_the_log_is_copied_again(
    mysql: ServerShop, monkeypatch: pytest.MonkeyPatch, document: bytes, code: str
) -> None:
    """The document before a partial update is bytes of no kind, or an empty object."""

    def other(before: pa.BinaryArray, diffs: pa.BinaryArray, policy: ColumnPolicy) -> pa.StringArray:
        return updated_documents(pa.array([document] * len(before), pa.binary()), diffs, policy)

    mysql.database.execute("ALTER TABLE notes ADD paper JSON")
    mysql.database.execute("UPDATE notes SET paper = JSON_OBJECT('words', JSON_OBJECT('first', 'long enough'))")
    mysql.run()
    with monkeypatch.context() as patch:
        patch.setattr(json_updates, "updated_documents", other)
        with mysql.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
            cursor.execute("UPDATE notes SET paper = JSON_SET(paper, '$.words.first', 'enough') WHERE id = 2")
        for _ in range(2):
            with pytest.raises(ReplicatorError, match=rf"{code}.*table resync NAME TABLE --in-place"):
                mysql.run()
        resync_past_the_place(mysql, code)
    mysql.three_runs()


@follows("RPL-3705")
def test_a_table_whose_rows_lack_what_cannot_be_known_is_copied_again(
    mysql: ServerShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server logs what a default computes; this reader is one to which each default is computed."""

    def filled(values: pa.Array, absent: Any, reading: Any, place: int, position: str) -> pa.Array:
        known = reading.plan.definition
        computed = [replace(column, default=None, has_expression_default=True) for column in known.columns]
        plan = SimpleNamespace(definition=known.with_columns(computed))
        lacking: Any = SimpleNamespace(plan=plan, ranks=reading.ranks, table=reading.table)
        return column_defaults.filled(values, absent, lacking, place, position) if absent.any() else values

    mysql.database.execute("ALTER TABLE notes ADD mood varchar(9) DEFAULT 'good'")
    mysql.run()
    with monkeypatch.context() as patch:
        patch.setattr(batch_builder, "filled", filled)
        with mysql.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
            cursor.execute("INSERT INTO notes (id, name) VALUES (4, 'd')")
            connection.commit()
        for _ in range(2):
            with pytest.raises(ReplicatorError, match=r"RPL-3705.*binlog_row_image = 'FULL'.*table resync NAME TABLE"):
                mysql.run()
        mysql.database.execute("SET GLOBAL binlog_row_image = 'FULL'")
        resync_past_the_place(mysql, "RPL-3705")
    mysql.three_runs()


@follows("RPL-3789")
def test_after_a_large_logged_rollback_a_reset_copies_everything_again(mariadb: ServerShop) -> None:
    """MariaDB logs a transaction that has made a temporary table, with what was undone."""
    mariadb.run()
    with mariadb.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("BEGIN NOT ATOMIC FOR n IN 100..50099 DO INSERT INTO notes VALUES (n, 'undone'); END FOR; END")
        cursor.execute("CREATE TEMPORARY TABLE unlogged (i INT)")
        cursor.execute("ROLLBACK")
    mariadb.database.execute("DELETE FROM customers WHERE id = 1")
    for _ in range(2):
        with pytest.raises(NeedsUserError, match=r"RPL-3789.*replicator reset PIPELINE"):
            mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()
