"""A snapshot is the table exactly at its position, for every kind of chunk and under concurrent writes."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replicator_sdk import TableSnapshot
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.snapshot import SnapshotChunk, SnapshotReader
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.server import PostgresDatabase


def reader_of(pump: Pump) -> SnapshotReader:
    reader = pump.source.create_snapshot_reader(pump.definition, pump.context)
    assert reader is not None
    return reader


def open_table(pump: Pump, name: str = "t", chunks: tuple[SnapshotChunk, ...] = ()) -> TableSnapshot:
    """Its chunks are read by ADBC, however small they are."""
    snapshot = reader_of(pump).open(pump.schemas[pump.table(name)], chunks)
    snapshot.read = replace(snapshot.read, adbc_rows=0)  # type: ignore[type-var]
    return snapshot


def rows_of(snapshot: TableSnapshot, *chunks: SnapshotChunk) -> list[dict[str, Any]]:
    return [row for chunk in chunks or snapshot.chunks for batch in snapshot.read(chunk) for row in batch.to_pylist()]


def filled(db: PostgresDatabase, columns: str, select: str, **settings: Any) -> Pump:
    db.execute(f"CREATE TABLE t ({columns})")
    db.execute(f"INSERT INTO t {select}")
    db.execute("ANALYZE t")
    return Pump(db, "t", chunk_rows=1000, **settings)


KINDS = {
    "key": ("id int PRIMARY KEY, v text", "SELECT i, 'v' || i FROM generate_series(1, 10500) i"),
    "text key": ("id text PRIMARY KEY, v int", "SELECT 'k''\\' || lpad(i::text, 6, '0'), i FROM generate_series(1, 10500) i"),
    "ctid": ("id int PRIMARY KEY, v text", "SELECT i * 7919 % 10501, 'v' FROM generate_series(1, 10500) i"),
    "no key": ("id int, v text", "SELECT i % 50, 'v' FROM generate_series(1, 10500) i"),
    "composite": ("a int, id int, PRIMARY KEY (a, id)", "SELECT i / 5000, i FROM generate_series(1, 10500) i"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_are_the_table_and_do_not_overlap(kind: str, postgres_oldest_and_newest: PostgresDatabase) -> None:
    db = postgres_oldest_and_newest
    pump = filled(db, *KINDS[kind])
    with open_table(pump) as snapshot:
        rows = rows_of(snapshot)
        assert len(rows) == 10500
        assert Counter(str(r["id"]) for r in rows) == Counter(str(r[0]) for r in db.execute("SELECT id FROM t"))
        if not (kind == "no key" and db.version < 14):
            assert len(snapshot.chunks) > 2
        if kind == "no key":
            assert not snapshot.resumable


def test_the_rows_are_those_of_the_position_and_the_log_brings_the_rest(
    postgres_oldest_and_newest: PostgresDatabase,
) -> None:
    """Under concurrent writers, no row is lost or doubled between snapshot and log."""
    db = postgres_oldest_and_newest
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pump = Pump(db, "t", chunk_rows=1000)
    pump.prepare()
    stop = threading.Event()

    def write() -> None:
        with db.connect() as connection:
            n = 0
            while not stop.is_set():
                n += 1
                connection.execute("INSERT INTO t VALUES (%s, 0)", [n])
                connection.execute("UPDATE t SET v = v + 1 WHERE id %% 7 = %s", [n % 7])
                connection.execute("DELETE FROM t WHERE id = %s", [n - 60])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        threading.Event().wait(0.3)
        with open_table(pump) as snapshot:
            threading.Event().wait(0.3)
            position, rows = snapshot.position, {r["id"]: r["v"] for r in rows_of(snapshot)}
    finally:
        stop.set()
        writer.join()
    run = pump.read()
    for window in run.emitter.closed_windows:
        commits = window.commits
        assert commits is not None
        for batch in window.events:
            for op, row, before, ordinal in zip(
                batch.op.to_pylist(),  # type: ignore[union-attr]
                batch.row.to_pylist(),  # type: ignore[union-attr]
                (batch.before or pa.nulls(len(batch))).to_pylist(),  # type: ignore[union-attr, arg-type]
                batch.ordinals.tolist(),  # type: ignore[union-attr]
                strict=True,
            ):
                commit = next(i for i, end in enumerate(commits.ordinals) if ordinal < end)
                if not position < commits.offset_at(commit):
                    continue
                if op == 3:
                    del rows[before["id"]]
                else:
                    # An insert is new, an update meets its row: the position is exact.
                    assert (row["id"] in rows) == (op == 2)
                    rows[row["id"]] = row["v"]
    assert rows == dict(db.execute("SELECT id, v FROM t"))


def test_an_interrupted_snapshot_continues_with_the_chunks_it_began_with(postgres_database: PostgresDatabase) -> None:
    """Chunks kept in state as JSON, read at two positions: every row is in exactly one chunk at both."""
    db = postgres_database
    pump = filled(db, *KINDS["key"])
    with open_table(pump) as first:
        assert first.resumable
        kept = tuple(SnapshotChunk.from_json(chunk.to_json()) for chunk in first.chunks)
        done = rows_of(first, *first.chunks[:4])
    db.execute("UPDATE t SET v = 'new'")
    with open_table(pump, chunks=kept) as second:
        assert second.chunks == kept
        rest = rows_of(second, *second.chunks[4:])
    ids = [r["id"] for r in done + rest]
    assert sorted(ids) == list(range(1, 10501))
    assert {r["v"] for r in rest} == {"new"}


def test_the_pickled_chunk_reader_does_not_show_the_password(postgres_database: PostgresDatabase) -> None:
    pump = filled(postgres_database, *KINDS["key"])
    with open_table(pump) as snapshot:
        read = pickle.loads(pickle.dumps(snapshot.read))
        assert postgres_database.password not in repr(read)
        assert sum(batch.num_rows for batch in read(snapshot.chunks[0])) > 0


@pytest.mark.parametrize("as_text", [False, True])
def test_a_table_rewritten_meanwhile_is_noticed(as_text: bool, postgres_database: PostgresDatabase) -> None:
    """TRUNCATE or VACUUM FULL would otherwise make the rest look empty, or bring rows twice."""
    db = postgres_database
    pump = filled(db, *KINDS["ctid"])
    with open_table(pump) as snapshot:
        if as_text:
            object.__setattr__(snapshot.read, "adbc_columns", None)
        rows_of(snapshot, snapshot.chunks[0])
        db.execute("VACUUM FULL t")
        with pytest.raises(RetryableError, match="RPL-3603"):
            rows_of(snapshot, snapshot.chunks[1])


@pytest.mark.parametrize(("rows", "by_adbc"), [(9_000, False), (11_000, True)])
def test_small_tables_are_read_without_adbc(
    rows: int, by_adbc: bool, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection of ADBC's queries the columns of all tables of the database."""
    from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]

    connections: list[object] = []
    connect = dbapi.connect

    def noted(*arguments: Any, **settings: Any) -> Any:
        connections.append(connect(*arguments, **settings))
        return connections[-1]

    monkeypatch.setattr(dbapi, "connect", noted)
    pump = filled(postgres_database, "id int PRIMARY KEY", f"SELECT generate_series(1, {rows})")
    pump = Pump(postgres_database, "t")
    with reader_of(pump).open(pump.schemas[pump.table("t")]) as snapshot:
        assert len(rows_of(snapshot)) == rows
    assert bool(connections) == by_adbc


def test_a_column_dropped_meanwhile_leads_to_a_new_snapshot(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    pump = filled(db, *KINDS["key"])
    with open_table(pump) as snapshot:
        db.execute("ALTER TABLE t DROP COLUMN v")
        with pytest.raises(RetryableError, match="RPL-3604"):
            rows_of(snapshot)


@pytest.mark.parametrize("by_adbc", [False, True], ids=["COPY", "ADBC"])
@pytest.mark.parametrize("kind", ["table", "partitioned"])
def test_the_rows_of_a_table_that_took_the_name_since_are_not_taken_for_its_own(
    kind: str, by_adbc: bool, postgres_oldest_and_newest: PostgresDatabase
) -> None:
    """A query finds a table by the name that it has by then, whatever the query's snapshot is."""
    db = postgres_oldest_and_newest
    parts = " PARTITION BY RANGE (id)" if kind == "partitioned" else ""
    for name in ("t", "other"):
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text){parts}")
        if parts:
            db.execute(f"CREATE TABLE {name}_part PARTITION OF {name} DEFAULT")
        db.execute(f"INSERT INTO {name} VALUES (1, '{name}')")
    with open_table(Pump(db, "t")) as snapshot:
        snapshot.read = replace(snapshot.read, **({"adbc_rows": 0} if by_adbc else {"adbc_columns": None}))  # type: ignore[type-var]
        assert rows_of(snapshot) == [{"id": 1, "v": "t"}]
        for name in ("t", "t_part") if parts else ("t",):
            db.execute(f"ALTER TABLE {name} RENAME TO x")
            db.execute(f"ALTER TABLE {name.replace('t', 'other', 1)} RENAME TO {name}")
            db.execute(f"ALTER TABLE x RENAME TO {name.replace('t', 'other', 1)}")
        with pytest.raises(RetryableError, match="RPL-3604"):
            rows_of(snapshot)


def test_a_table_dropped_before_it_is_copied_has_the_attempt_repeated(postgres_database: PostgresDatabase) -> None:
    """It was described a moment ago: a migration may have put another in its place."""
    db = postgres_database
    pump = filled(db, *KINDS["key"])
    db.execute("DROP TABLE t")
    with pytest.raises(RetryableError, match="RPL-3605"):
        open_table(pump)


def test_a_snapshot_sees_columns_added_since_the_table_was_described(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    pump = filled(db, *KINDS["key"])
    db.execute("ALTER TABLE t ADD w int DEFAULT 3")
    with open_table(pump) as snapshot:
        assert snapshot.schema.names == ("id", "v", "w")
        assert rows_of(snapshot)[0]["w"] == 3


def test_a_closed_snapshot_cannot_be_read_and_frees_its_slot(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    pump = filled(db, *KINDS["key"])
    snapshot = open_table(pump)
    slots = "SELECT count(*) FROM pg_replication_slots WHERE temporary AND database = current_database()"
    assert db.execute(slots)[0][0] == 1
    snapshot.close()
    snapshot.close()
    with pytest.raises(RetryableError, match="RPL-3604"):
        rows_of(snapshot)
    for _ in range(600):
        if db.execute(slots)[0][0] == 0:
            break
        threading.Event().wait(0.1)
    assert db.execute(slots)[0][0] == 0


def test_an_empty_table_has_no_rows(postgres_database: PostgresDatabase) -> None:
    postgres_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    assert Pump(postgres_database, "t").snapshot("t")[1].num_rows == 0
    assert Pump(postgres_database, "t").snapshot("t", as_text=True)[1].num_rows == 0


def test_rows_of_inheriting_tables_are_not_the_table_s(postgres_database: PostgresDatabase) -> None:
    """The log delivers a child's changes under the child's name, so the snapshot must not mix them in."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE child () INHERITS (t)")
    db.execute("INSERT INTO t VALUES (1); INSERT INTO child VALUES (2)")
    assert Pump(db, "t").snapshot("t")[1]["id"].to_pylist() == [1]


def test_row_security_fails_a_snapshot_instead_of_removing_rows(postgres_database: PostgresDatabase) -> None:
    """With `row_security = off` the server refuses where it would filter."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)")
    db.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id < 6)")
    role = f"limited_{db.name}"
    db.execute(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'; GRANT SELECT ON t TO {role}")
    try:
        with pytest.raises(NeedsUserError, match="row-level security"):
            Pump(db, "t", user=role, password="x").snapshot("t")
    finally:
        db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_generated_columns_are_in_neither_snapshot_nor_log(postgres_oldest_and_newest: PostgresDatabase) -> None:
    db = postgres_oldest_and_newest
    db.execute("CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, v int)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t (id, v) VALUES (1, 2)")
    run = pump.read()
    assert run.ddl == []
    assert run.inserted("t").to_pylist() == pump.snapshot("t")[1].to_pylist() == [{"id": 1, "v": 2}]


def test_no_free_slot_is_reported_with_the_setting_to_raise(private_postgres: Any) -> None:
    server = private_postgres(max_replication_slots=1)
    with server.database() as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        pump = Pump(db, "t")
        pump.prepare()
        with pytest.raises(NeedsUserError, match="RPL-3105") as caught:
            open_table(pump)
        assert "max_replication_slots" in caught.value.hint
