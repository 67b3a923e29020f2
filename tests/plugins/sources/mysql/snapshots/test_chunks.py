"""However a table is cut by its key, all chunks together are the table and no row is in two."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.errors import RetryableError
from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.sources.mysql.snapshot_reading import definition_of, planned_chunks, reader_of, rows_of, schema_of
from tests.services.mysql.client import rows
from tests.services.mysql.server import MysqlDatabase


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


_words = st.text(st.sampled_from(list("aAáäßsSzZ0 _%'\\é")), max_size=6).map(_quoted)
_days = st.dates().map(lambda day: f"'{day}'")
_moments = st.datetimes().map(lambda moment: f"'{moment}'")
KEYS: dict[str, st.SearchStrategy[str]] = {
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "smallint unsigned": st.integers(0, 300).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "bigint unsigned": st.integers(0, 2**64 - 1).map(str),
    "decimal(30,5)": st.decimals(-(10**20), 10**20, places=5).map(str),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    "varchar(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci": _words,
    "varchar(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": _words,
    "varchar(8) CHARACTER SET latin1": _words,
    "char(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci": _words,
    "varchar(8) CHARACTER SET utf16": _words,
    "varbinary(6)": st.binary(max_size=6).map(lambda b: f"X'{b.hex()}'"),
    "binary(4)": st.binary(max_size=4).map(lambda b: f"X'{b.hex()}'"),
    "date": _days,
    "datetime(6)": _moments,
    "time(3)": st.integers(-3_020_399, 3_020_399).map(lambda s: f"SEC_TO_TIME({s})"),
    "year": st.integers(1901, 2155).map(str),
    "enum('zz','b','A','10','2')": st.integers(1, 5).map(str),
    "set('zz','b','A')": st.integers(0, 7).map(str),
    "bit(40)": st.integers(0, 2**40 - 1).map(str),
    "timestamp(3)": st.integers(1, 2**31 - 1).map(lambda s: f"FROM_UNIXTIME({s})"),
}
_settings = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def _tables(draw: st.DrawFn) -> tuple[Sequence[str], list[tuple[str, ...]], int]:
    kinds = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3))
    pools = [draw(st.lists(KEYS[kind], min_size=1, max_size=60 if len(kinds) == 1 else 9)) for kind in kinds]
    keys = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=0, max_size=60))
    return kinds, keys, draw(st.integers(1, 12))


@_settings
@given(_tables())
def test_any_key_is_covered_once(
    mysql_and_mariadb: MysqlDatabase, table: tuple[Sequence[str], list[tuple[str, ...]], int]
) -> None:
    """Keys of every kind, skewed and in any collation, the plan kept as JSON meanwhile."""
    kinds, keys, chunk_rows = table
    db = mysql_and_mariadb
    db.execute("DROP TABLE IF EXISTS t")
    columns = "".join(f"k{rank} {kind} NOT NULL, " for rank, kind in enumerate(kinds))
    names = ", ".join(f"k{rank}" for rank in range(len(kinds)))
    db.execute(f"CREATE TABLE t ({columns} n int NOT NULL, PRIMARY KEY ({names}))")
    if keys:
        values = ", ".join(f"({', '.join(key)}, {number})" for number, key in enumerate(keys))
        db.execute(f"INSERT IGNORE INTO t VALUES {values}")
    read, chunks = planned_chunks(db, chunk_rows)
    kept = [SnapshotChunk.from_json(chunk.to_json()) for chunk in chunks]
    found = sorted(
        n for chunk in kept for batch in pickle.loads(pickle.dumps(read))(chunk) for n in batch["n"].to_pylist()
    )
    expected = sorted(n for (n,) in rows(db, "SELECT n FROM t"))
    assert found == expected
    # What comes later is in a chunk as well.
    later = ", ".join(f"({', '.join(key)}, {number})" for number, key in enumerate(reversed(keys), 1000))
    if keys:
        db.execute("DELETE FROM t WHERE n % 2 = 0")
        db.execute(f"INSERT IGNORE INTO t VALUES {later}")
    found = sorted(n for chunk in kept for batch in read(chunk) for n in batch["n"].to_pylist())
    assert found == sorted(n for (n,) in rows(db, "SELECT n FROM t"))


def _fill(db: MysqlDatabase, columns: str, select: str, count: int) -> None:
    db.execute(f"CREATE TABLE t ({columns})")
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SET SESSION " + ("max_recursive_iterations" if db.is_mariadb else "cte_max_recursion_depth") + " = 1000000"
        )
        numbers = f"WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
        cursor.execute(f"INSERT INTO t {numbers} SELECT {select} FROM n")


LAYOUTS = {
    "dense": ("id int PRIMARY KEY, v int", "i, 0", ["id"]),
    "half dense": ("id bigint unsigned PRIMARY KEY, v int", "18446744073709551615 - i * 2, 0", ["id"]),
    "sparse": ("id bigint PRIMARY KEY, v int", "i * i * i, 0", ["id"]),
    "two heaps": ("id bigint PRIMARY KEY, v int", "IF(i % 2, i, 9000000000000000000 + i), 0", ["id"]),
    "one tenant has all": ("a int, id int, PRIMARY KEY (a, id)", "IF(i < 30, i, 7), i", ["id"]),
    "unique key": ("v int, id varchar(20) NOT NULL, UNIQUE (id)", "0, CONCAT('k', i)", ["id"]),
    "enum first": ("e enum('z','a'), id int, PRIMARY KEY (e, id)", "1 + i % 2, i", ["id"]),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_are_about_as_large_as_asked(layout: str, mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    columns, select, _ = LAYOUTS[layout]
    _fill(db, columns, select, 12_000)
    with reader_of(db, chunk_rows=1000).open(schema_of(db)) as snapshot:
        sizes = [len(rows_of(snapshot, [chunk])) for chunk in snapshot.chunks]
        assert snapshot.resumable
    assert sum(sizes) == 12_000
    if layout == "enum first":
        assert len(sizes) == 8
    else:
        assert 10 <= len(sizes) <= 16
        assert max(sizes) <= 2500


def test_a_key_of_a_part_of_a_text_is_read_as_a_whole(mysql_and_mariadb: MysqlDatabase) -> None:
    _fill(mysql_and_mariadb, "id text, v int, PRIMARY KEY (id(20))", "CONCAT('k', i), i", 3000)
    with reader_of(mysql_and_mariadb, chunk_rows=1000).open(schema_of(mysql_and_mariadb)) as snapshot:
        assert len(snapshot.chunks) == 1
        assert snapshot.resumable
        assert len(rows_of(snapshot)) == 3000


def test_kept_chunks_are_used_again(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    _fill(db, "id varchar(20) PRIMARY KEY, v int", "CONCAT('k', i), i", 5000)
    reader, schema = reader_of(db, chunk_rows=1000), schema_of(db)
    with reader.open(schema) as first:
        kept = tuple(SnapshotChunk.from_json(chunk.to_json()) for chunk in first.chunks)
    db.execute("DELETE FROM t WHERE v < 2000")
    with reader.open(schema, kept) as again:
        assert again.chunks == kept
        assert again.resumable
        assert len(rows_of(again)) == 3001


def test_chunks_of_another_key_are_not_used(mysql_and_mariadb: MysqlDatabase) -> None:
    """Another collation sorts otherwise: what was read by the old order says nothing of the new one."""
    db = mysql_and_mariadb
    _fill(db, "id varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v int", "CONCAT('k', i), i", 5000)
    reader = reader_of(db, chunk_rows=1000)
    with reader.open(schema_of(db)) as first:
        kept = first.chunks
    db.execute("ALTER TABLE t MODIFY id varchar(20) COLLATE utf8mb4_bin")
    with reader.open(schema_of(db), kept) as again:
        assert not again.resumable
        assert len(rows_of(again)) == 5000


@pytest.mark.parametrize(
    "change", ["DROP COLUMN v", "ADD COLUMN w int", "MODIFY v bigint", "MODIFY id varchar(20) COLLATE utf8mb4_bin"]
)
def test_a_changed_structure_is_noticed(change: str, mysql_and_mariadb: MysqlDatabase) -> None:
    """A chunk read under another structure than the one planned would mix columns or rows."""
    db = mysql_and_mariadb
    _fill(db, "id varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v int", "CONCAT('k', i), i", 3000)
    with reader_of(db, chunk_rows=1000).open(schema_of(db)) as snapshot:
        assert rows_of(snapshot, snapshot.chunks[:1])
        db.execute(f"ALTER TABLE t {change}")
        with pytest.raises(RetryableError, match="RPL-3820") as caught:
            rows_of(snapshot, snapshot.chunks[1:2])
    assert str(caught.value.table) == f"{db.name}.t"


def test_a_dropped_table_is_noticed(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    _fill(db, "id int PRIMARY KEY", "i", 10)
    with reader_of(db).open(schema_of(db)) as snapshot:
        db.execute("DROP TABLE t")
        with pytest.raises(RetryableError, match="RPL-3820"):
            rows_of(snapshot)


def test_only_selected_columns_are_read(mysql_and_mariadb: MysqlDatabase) -> None:
    from replicator_source_mysql.snapshots.snapshot import MySqlSnapshotReader
    from tests.plugins.sources.mysql.snapshot_reading import end_of_log, endpoint_of

    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    db.execute("INSERT INTO t VALUES (1, 2, 3)")
    schema = schema_of(db)
    reader = MySqlSnapshotReader(endpoint_of(db), end_of_log, narrowed=frozenset({schema.table}))
    with reader.open(schema.select(["b"])) as snapshot:
        assert rows_of(snapshot) == [{"id": 1, "b": 3}]


def test_the_end_is_after_every_row_read(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    _fill(db, "id int PRIMARY KEY", "i", 10)
    with reader_of(db).open(schema_of(db)) as snapshot:
        db.execute("INSERT INTO t VALUES (99)")
        assert len(rows_of(snapshot)) == 11
        end = snapshot.end()
    assert end is not None
    assert snapshot.position < end


def test_values_of_every_length_arrive_whole(mysql_and_mariadb: MysqlDatabase) -> None:
    """Lengths of one, three, four and nine bytes, NULL and empty, and a row larger than a packet."""
    db = mysql_and_mariadb
    sizes = [None, 0, 1, 250, 251, 65_535, 65_536, 1_000_000]
    if not db.is_mariadb:  # its max_allowed_packet is 16 MB
        sizes.append(17_000_000)
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v longblob, w varchar(10))")
    for number, size in enumerate(sizes):
        db.execute("INSERT INTO t VALUES (%s, REPEAT('x', %s), 'end')", number, size)
    with reader_of(db).open(schema_of(db)) as snapshot:
        found = {row["id"]: (row["v"], row["w"]) for row in rows_of(snapshot)}
    assert [None if v is None else len(v) for v, _ in map(found.get, range(len(sizes)))] == sizes  # type: ignore[misc]
    assert {w for _, w in found.values()} == {"end"}
    assert all(set(v or b"x") <= {ord("x")} for v, _ in found.values())


def test_the_definition_is_whole(mysql_and_mariadb: MysqlDatabase) -> None:
    """Generated and invisible columns are read too, because the log has them."""
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (id int PRIMARY KEY, g int AS (id + 1) VIRTUAL, h int DEFAULT 5 INVISIBLE)")
    db.execute("INSERT INTO t (id) VALUES (1)")
    assert [column.name for column in definition_of(db).columns] == ["id", "g", "h"]
    with reader_of(db).open(schema_of(db)) as snapshot:
        assert rows_of(snapshot) == [{"id": 1, "g": 2, "h": 5}]


def test_a_table_that_is_dropped_before_it_is_copied_has_the_attempt_repeated(mysql_database: MysqlDatabase) -> None:
    """It was described a moment ago: an online schema change may have taken it away."""
    mysql_database.execute("CREATE TABLE ghost (id int PRIMARY KEY)")
    schema = schema_of(mysql_database, "ghost")
    mysql_database.execute("DROP TABLE ghost")
    with pytest.raises(RetryableError, match="RPL-3829"):
        reader_of(mysql_database).open(schema)
