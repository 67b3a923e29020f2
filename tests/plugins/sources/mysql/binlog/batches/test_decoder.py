"""Rows written through real servers and decoded from their logs, compared with what another client reads."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_source_mysql.binlog.batches.decoder import Decoder
from replicator_source_mysql.binlog.event import Kind
from replicator_source_mysql.definition import ColumnDefinition
from tests.plugins.sources.mysql.binlog.log_reading import Planner, batches_since, changes, events_since, kinds, log_end
from tests.services.mysql.client import rows
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase

INSERT, UPDATE, DELETE = 1, 2, 3


def replayed(
    found: list[tuple[int, str, int, dict[str, Any], dict[str, Any] | None]], key: str
) -> dict[Any, dict[str, Any]]:
    """The table that the changes make, by key."""
    table: dict[Any, dict[str, Any]] = {}
    for _, _, op, row, before in found:
        if op == DELETE:
            assert before is not None
            del table[before[key]]
            continue
        if op == UPDATE:
            del table[before[key] if before is not None else row[key]]
        assert row[key] not in table
        table[row[key]] = row
    return table


def run(database: MysqlDatabase, *statements: str, session: str = "") -> None:
    """All statements in one transaction."""
    with database.connect() as connection, connection.cursor() as cursor:
        if session:
            cursor.execute(session)
        cursor.execute("START TRANSACTION")
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def test_interleaved_changes_come_in_log_order_with_keys_before(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT)")
    start = log_end(database.server)
    run(
        database,
        "INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', 2)",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (2, NULL, 3)",
        "UPDATE t SET id = 5 WHERE id = 2",
    )
    (batch,) = batches_since(database, start)
    assert batch.ordinals.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.op.to_pylist() == [INSERT, INSERT, UPDATE, DELETE, INSERT, UPDATE]
    assert batch.before is not None
    assert batch.before.to_pylist() == [
        None, None, None, {"id": 2, "v": None, "n": None}, None, {"id": 2, "v": None, "n": None}
    ]  # fmt: skip
    assert not batch.before_is_full
    after = batch.row.to_pylist()
    assert after[2] == {"id": 1, "v": "c", "n": None}
    assert after[5] == {"id": 5, "v": None, "n": 3}


@pytest.mark.parametrize("limit", [1, 3, 100_000])
def test_windows_may_cut_transactions_anywhere(mysql_and_mariadb: MysqlDatabase, limit: int) -> None:
    database = mysql_and_mariadb
    for table in ("a", "b"):
        database.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT)")
    start = log_end(database.server)
    run(
        database,
        *(f"INSERT INTO {table} VALUES ({rank}, '{table * rank}')" for rank in range(20) for table in ("a", "b")),
        *(f"UPDATE {table} SET v = 'new' WHERE id % 3 = 0" for table in ("a", "b")),
        "DELETE FROM a WHERE id = 4",
    )
    found = changes(batches_since(database, start, limit=limit))
    assert [ordinal for ordinal, *_ in found] == list(range(55))
    for table in ("a", "b"):
        expected = {key: {"id": key, "v": value} for key, value in rows(database, f"SELECT id, v FROM {table}")}
        assert replayed([change for change in found if change[1] == table], "id") == expected


def test_many_tables_interleaved_and_rows_that_are_not_captured_are_counted(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    for rank in range(12):
        database.execute(f"CREATE TABLE t{rank} (id INT PRIMARY KEY, v VARCHAR({10 + 40 * rank}))")
    start = log_end(database.server)
    planner = Planner(database)
    del planner.definitions["t0"]
    run(database, *(f"INSERT INTO t{row % 12} VALUES ({row}, REPEAT('x', {row % 10}))" for row in range(240)))
    decoder, first, batches = Decoder(planner), 1000, list[ChangeBatch]()
    for events in events_since(database.server, start):
        batches += decoder.decode(events, first)
        assert len(decoder.ranks) == len(events) + 1
        first = int(decoder.ranks[-1])
    assert sum(map(len, batches)) == 220
    assert first == 1240
    assert sorted({batch.table.table for batch in batches}) == sorted(f"t{rank}" for rank in range(1, 12))
    ordinals = np.sort(np.concatenate([batch.ordinals for batch in batches]))
    assert ordinals.tolist() == [1000 + row for row in range(240) if row % 12]
    assert planner.asked == 12
    decoder.forget()
    list(decoder.decode(events, 0))
    assert planner.asked == 24


def test_a_table_without_a_key_has_whole_rows_before(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (a INT, b VARCHAR(9))")
    start = log_end(database.server)
    run(
        database,
        "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
        "UPDATE t SET b = 'y' LIMIT 1",
        "DELETE FROM t",
    )
    (batch,) = batches_since(database, start)
    assert batch.before_is_full
    assert batch.before is not None
    before = batch.before.to_pylist()
    assert before[:4] == [None, None, None, {"a": 1, "b": "x"}]
    assert sorted(map(str, before[4:])) == sorted(
        map(str, [{"a": 1, "b": "y"}, {"a": 1, "b": "x"}, {"a": None, "b": None}])
    )


def session_image(image: str) -> str:
    return f"SET SESSION binlog_row_image = '{image}'"


WIDE = "id INT PRIMARY KEY, a INT NOT NULL DEFAULT 7, b VARCHAR(20) DEFAULT 'none', c BLOB, d TEXT, e INT"


@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
def test_what_an_image_lacks_is_marked_unchanged_or_filled(mysql_and_mariadb: MysqlDatabase, image: str) -> None:
    database = mysql_and_mariadb
    database.execute(f"CREATE TABLE t ({WIDE})")
    start = log_end(database.server)
    run(
        database,
        "INSERT INTO t (id, c) VALUES (1, 'blob'), (2, '')",
        "INSERT INTO t VALUES (3, 1, 'b', 'c', 'd', 5)",
        "UPDATE t SET e = id * 10",
        "UPDATE t SET d = 'text' WHERE id = 2",
        "UPDATE t SET id = 30 WHERE id = 3",
        "DELETE FROM t WHERE id = 1",
        session=session_image(image),
    )
    (batch,) = batches_since(database, start)
    table: dict[int, dict[str, Any]] = {}
    open_cells = 0
    for place, (_, _, op, row, before) in enumerate(changes([batch])):
        if op == DELETE:
            assert before is not None
            del table[before["id"]]
            continue
        if op == UPDATE:
            old = table.pop(before["id"] if before is not None else row["id"])
            for name, mask in batch.unchanged.items():
                if mask[place].as_py():
                    assert row[name] is None
                    row[name] = old[name]
                    open_cells += 1
        table[row["id"]] = row
    expected = rows(database, "SELECT id, a, b, c, d, e FROM t")
    assert sorted(table.values(), key=lambda row: row["id"]) == [
        dict(zip(("id", "a", "b", "c", "d", "e"), row, strict=True)) for row in sorted(expected)
    ]
    assert (open_cells > 0) is (image != "FULL")


def test_computed_defaults_are_what_the_server_computed(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), u VARCHAR(40) DEFAULT (UUID()), v INT)"
    )
    start = log_end(database.server)
    run(database, "INSERT INTO t (id, v) VALUES (1, 2)", session=session_image("MINIMAL"))
    (batch,) = batches_since(database, start)
    assert [tuple(row.values()) for row in batch.row.to_pylist()] == rows(database, "SELECT * FROM t")


def test_a_lacking_value_whose_default_cannot_be_known_is_refused(mysql_database: MysqlDatabase) -> None:
    mysql_database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 5)")
    start = log_end(mysql_database.server)
    run(mysql_database, "INSERT INTO t (id) VALUES (1)", session=session_image("MINIMAL"))
    planner = Planner(mysql_database)
    definition = planner.definitions["t"]
    computed = replace(definition["v"], default=None, has_expression_default=True)
    planner.definitions["t"] = definition.with_columns([definition["id"], computed])
    with pytest.raises(NeedsUserError, match=r"RPL-3705.*'v'.*binlog_row_image") as caught:
        batches_since(mysql_database, start, plan=planner)
    assert caught.value.table == f"{mysql_database.name}.t"


def test_a_table_without_a_key_is_whole_also_under_minimal_images(mysql_and_mariadb: MysqlDatabase) -> None:
    """The server logs the whole row before then, which fills the one after."""
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (a INT, b BLOB, c INT)")
    start = log_end(database.server)
    run(database, "INSERT INTO t VALUES (1, 'x', 2)", "UPDATE t SET c = 3", session=session_image("MINIMAL"))
    (batch,) = batches_since(database, start)
    assert batch.before_is_full
    assert batch.row.to_pylist()[1] == {"a": 1, "b": b"x", "c": 3}
    assert not batch.unchanged


def test_half_rows_of_a_table_without_a_key_are_refused_by_the_settings_name(mysql_database: MysqlDatabase) -> None:
    mysql_database.execute("CREATE TABLE t (a INT, b BLOB, c INT)")
    start = log_end(mysql_database.server)
    run(mysql_database, "INSERT INTO t (a) VALUES (1)", session=session_image("MINIMAL"))
    with pytest.raises(NeedsUserError, match=r"RPL-3714.*binlog_row_image"):
        batches_since(mysql_database, start)


def test_a_definition_of_another_time_is_refused_not_misread(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    start = log_end(database.server)
    database.execute("INSERT INTO t VALUES (1, 2)")
    planner = Planner(database)
    definition = planner.definitions["t"]
    planner.definitions["t"] = definition.with_columns([*definition.columns, ColumnDefinition("w", "int")])
    with pytest.raises(SchemaDriftError, match=r"RPL-3703.*2 columns in the log and 3") as caught:
        batches_since(database, start, plan=planner)
    assert caught.value.table == f"{database.name}.t"
    planner.definitions["t"] = definition.with_columns([definition.columns[0], ColumnDefinition("v", "bigint")])
    with pytest.raises(SchemaDriftError, match=r"RPL-3703.*'v' known as bigint"):
        batches_since(database, start, plan=planner)


def test_only_selected_columns_are_decoded(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (a TEXT, id INT PRIMARY KEY, b TEXT, c INT)")
    start = log_end(database.server)
    database.execute("INSERT INTO t VALUES ('long', 1, NULL, 3)")
    (batch,) = batches_since(database, start, columns=("c",))
    assert batch.row.to_pylist() == [{"id": 1, "c": 3}]


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_rows_and_events_larger_than_a_packet(mysql_server: PrivateMysql, release: Release) -> None:
    with mysql_server(release, max_allowed_packet="64M").database() as database:
        check_large_rows(database)


def check_large_rows(database: MysqlDatabase) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    start = log_end(database.server)
    sizes = [2**24 - 100, 2**24 + 5, 35_000_000]
    with database.connect(max_allowed_packet=2**26) as connection, connection.cursor() as cursor:
        for key, size in enumerate(sizes):
            cursor.execute(f"INSERT INTO t VALUES ({key}, REPEAT('y', {size}))")
        cursor.execute("INSERT INTO t VALUES (9, 'small')")
    found = [row["v"] for *_, row, _ in changes(batches_since(database, start))]
    assert [len(value) for value in found] == [*sizes, 5]
    assert all(set(value) == {ord("y")} for value in found[:3])


def test_rows_wider_than_250_columns(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    columns = ", ".join(f"c{rank} {'VARCHAR(5)' if rank % 3 else 'TINYINT'}" for rank in range(300))
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    start = log_end(database.server)
    database.execute(
        f"INSERT INTO t VALUES (1, {', '.join(str(rank % 7) if rank % 5 else 'NULL' for rank in range(300))})"
    )
    database.execute("UPDATE t SET c299 = 'z'")
    found = changes(batches_since(database, start))
    expected = rows(database, "SELECT * FROM t")[0]
    assert tuple(found[1][3].values()) == expected


def test_one_large_event_of_many_rows(mysql_server: PrivateMysql) -> None:
    """With a large binlog_row_event_max_size one event holds all rows of a statement."""
    with mysql_server(MYSQL_9, binlog_row_event_max_size=2**24).database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(300), w INT)")
        values = ", ".join(f"({key}, REPEAT('v', {key % 280}), {'NULL' if key % 3 else key})" for key in range(5000))
        start = log_end(database.server)
        database.execute(f"INSERT INTO t VALUES {values}")
        windows = events_since(database.server, start)
        assert kinds(windows)["WRITE_ROWS"] == 1
        (batch,) = batches_since(database, start)
        assert [tuple(row.values()) for row in batch.row.to_pylist()] == sorted(rows(database, "SELECT * FROM t"))


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_row_metadata_in_full_decodes_the_same(mysql_server: PrivateMysql, release: Release) -> None:
    with mysql_server(release, binlog_row_metadata="FULL").database() as database:
        database.execute(
            "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, v ENUM('a','b'), w SET('x','y'), p POINT, t TEXT)"
        )
        start = log_end(database.server)
        database.execute("INSERT INTO t VALUES (4294967295, 'b', 'x,y', ST_GeomFromText('POINT(1 2)'), 'é')")
        ((_, _, _, row, _),) = changes(batches_since(database, start))
        assert (row["id"], row["v"], row["w"], row["t"]) == (4294967295, "b", "x,y", "é")


def test_mysqls_compressed_transactions_are_read(mysql_database: MysqlDatabase) -> None:
    database = mysql_database
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    start = log_end(database.server)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_transaction_compression = ON")
        for first in (0, 10_000):
            connection.begin()
            for chunk in range(first, first + 10_000, 2500):
                values = ", ".join(f"({key}, REPEAT('v{key}', 60))" for key in range(chunk, chunk + 2500))
                cursor.execute(f"INSERT INTO t VALUES {values}")
            cursor.execute(f"UPDATE t SET v = 'new' WHERE id = {first}")
            connection.commit()
    end = log_end(database.server)
    assert end.position - start.position < 1_000_000  # it was compressed
    windows = events_since(database.server, start)
    assert kinds(windows)["TRANSACTION_PAYLOAD"] == 0
    assert kinds(windows)["XID"] == 2
    assert max(len(events.data) for events in windows) < 10_000_000
    found = changes(batches_since(database, start))
    assert replayed(found, "id") == {key: {"id": key, "v": v} for key, v in rows(database, "SELECT id, v FROM t")}


def test_mariadbs_compressed_events_and_columns_are_read(mysql_server: PrivateMysql) -> None:
    server = mysql_server(MARIADB_10_11, log_bin_compress=True, log_bin_compress_min_len=10)
    with server.database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT COMPRESSED, w VARCHAR(3000) COMPRESSED)")
        start = log_end(server)
        values = ", ".join(f"({key}, REPEAT('v{key}', {key}), REPEAT('w', {key}))" for key in range(400))
        run(
            database,
            f"INSERT INTO t VALUES {values}",
            "UPDATE t SET v = REPEAT('n', 500) WHERE id < 50",
            "DELETE FROM t WHERE id = 7",
        )
        windows = events_since(server, start)
        assert kinds(windows)["UPDATE_ROWS_1"] > 0
        assert not [kind for kind in kinds(windows) if "COMPRESSED" in kind]
        found = changes(batches_since(database, start))
        expected = {key: {"id": key, "v": v, "w": w} for key, v, w in rows(database, "SELECT id, v, w FROM t")}
        assert replayed(found, "id") == expected


def test_partial_json_updates_are_applied_to_the_document_before(mysql_database: MysqlDatabase) -> None:
    database = mysql_database
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT, k JSON)")
    document = '{"a": [1, 2, 3], "b": "a long enough string to be worth a diff", "c": {"d": 1}}'
    start = log_end(database.server)
    run(
        database,
        f"INSERT INTO t VALUES (1, '{document}', 1, '[1, 2, {document}]'), (2, NULL, 2, '{document}'), (3, '{document}', 3, NULL)",
        "UPDATE t SET j = JSON_SET(j, '$.a[1]', 77), k = JSON_REPLACE(k, '$[0]', 5)",
        "UPDATE t SET k = JSON_REMOVE(k, '$.c') WHERE id = 2",
        "UPDATE t SET j = JSON_ARRAY_INSERT(j, '$.a[0]', 'new'), n = 9 WHERE id = 3",
        session="SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
    )
    windows = events_since(database.server, start)
    assert kinds(windows)["PARTIAL_UPDATE_ROWS"] > 0
    found = changes(batches_since(database, start))
    texts = [tuple(row.values()) for row in replayed(found, "id").values()]
    assert sorted(texts, key=lambda row: row[0]) == sorted(rows(database, "SELECT * FROM t"))


def test_a_partial_json_update_without_the_document_before_is_refused(mysql_database: MysqlDatabase) -> None:
    database = mysql_database
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    database.execute("""INSERT INTO t VALUES (1, '{"a": 1, "b": "a long enough string to be worth a diff"}')""")
    start = log_end(database.server)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON', binlog_row_image = 'MINIMAL'")
        cursor.execute("UPDATE t SET j = JSON_SET(j, '$.a', 2)")
    assert kinds(events_since(database.server, start))[Kind.PARTIAL_UPDATE_ROWS.name] == 1
    with pytest.raises(NeedsUserError, match=r"RPL-3706.*binlog_row_value_options"):
        batches_since(database, start)


ROW = st.fixed_dictionaries(
    {
        "t": st.one_of(st.none(), st.integers(-128, 127)),
        "b": st.one_of(st.none(), st.integers(0, 2**64 - 1)),
        "d": st.one_of(st.none(), st.decimals("-99999999.99", "99999999.99", places=2)),
        "s": st.one_of(
            st.none(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
        ),
        "x": st.one_of(st.none(), st.binary(max_size=400)),
        "f": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)),
        "m": st.one_of(st.none(), st.datetimes().filter(lambda moment: moment.year >= 1000)),
    }
)
STEP = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 9), ROW),
    st.tuples(st.just("set"), st.integers(0, 9), ROW),
    st.tuples(st.just("move"), st.integers(0, 9), st.integers(10, 99)),
    st.tuples(st.just("drop"), st.integers(0, 9), st.just(None)),
)
NAMES = ("t", "b", "d", "s", "x", "f", "m")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=1, max_size=25))
def test_random_rows_written_are_the_rows_decoded(mysql_and_mariadb: MysqlDatabase, steps: list[Any]) -> None:
    database = mysql_and_mariadb
    database.execute("DROP TABLE IF EXISTS t")
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, t TINYINT, b BIGINT UNSIGNED, d DECIMAL(10,2), s VARCHAR(200)"
        " CHARACTER SET utf8mb4, x BLOB, f DOUBLE, m DATETIME(6))"
    )
    start = log_end(database.server)
    with database.connect() as connection, connection.cursor() as cursor:
        connection.begin()
        for verb, key, value in steps:
            if verb == "put":
                names = ", ".join(NAMES)
                cursor.execute(
                    f"REPLACE INTO t (id, {names}) VALUES (%s{', %s' * 7})", [key, *(value[name] for name in NAMES)]
                )
            elif verb == "set":
                sets = ", ".join(f"{name} = %s" for name in NAMES)
                cursor.execute(f"UPDATE t SET {sets} WHERE id = %s", [*(value[name] for name in NAMES), key])
            elif verb == "move":
                cursor.execute("UPDATE IGNORE t SET id = %s WHERE id = %s", [value, key])
            else:
                cursor.execute("DELETE FROM t WHERE id = %s", [key])
        connection.commit()
    found = changes(batches_since(database, start))
    expected = {
        row[0]: dict(
            zip(("id", *NAMES), (*row[:2], None if row[2] is None else Decimal(row[2]), *row[3:]), strict=True)
        )
        for row in rows(database, f"SELECT id, {', '.join(NAMES)} FROM t")
    }
    assert replayed(found, "id") == expected
