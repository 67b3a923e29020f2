from __future__ import annotations
import contextlib, random, sqlite3, shutil, json
from pathlib import Path
import pytest
from tests.plugins.sources.rename_storm import Storm
from tests.plugins.sources.sqlite import test_rename_storm as m
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.test_run import Host, Shop

from replicator_source_sqlite.streaming import reader as R
from replicator_runtime.engine.run_state.run import Run

_save = Run.save_offset


def save(self, offset, n):
    print("SAVE", self.saved_offset, "->", offset, flush=True)
    _save(self, offset, n)


Run.save_offset = save
_init = R.SqliteReader.initialize


def init(self, offset):
    print("READER", offset, sorted(t.table for t in self._definition.tables), flush=True)
    return _init(self, offset)


R.SqliteReader.initialize = init
_ch = R.SqliteReader._emit_changes


def ch(self, database, heads):
    vs = {h[1] for h in heads}
    print(
        "READ",
        heads[0][0],
        heads[-1][0],
        {v: str((s := self._selection.schema(self._versions[v])) and s.table) for v in vs},
        self._position,
        self._ordinal,
        flush=True,
    )
    return _ch(self, database, heads)


R.SqliteReader._emit_changes = ch
_ddl = R.SqliteReader._emit_ddl


def ddl(self, database, head):
    print("READDDL", head[0], self._position, self._ordinal, flush=True)
    return _ddl(self, database, head)


R.SqliteReader._emit_ddl = ddl
C = in_memory_target.InMemoryConsumer
_ab = C.apply_batch


def ab(self, changes):
    print(
        "APPLY",
        changes.table,
        changes.identity,
        "from",
        STORAGE_().tables[changes.table].progress.position,
        "overlap",
        changes.overlap,
        [list(zip(p.op.to_pylist(), [list(r.values())[0] for r in p.row.to_pylist()])) for p in changes.batches()][:2],
        flush=True,
    )
    return _ab(self, changes)


C.apply_batch = ab


def STORAGE_():
    return in_memory_target.STORAGE


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(1, 200))
def test_s(seed, tmp_path):
    import faulthandler, sys

    faulthandler.dump_traceback_later(45, exit=True, file=sys.__stdout__)
    in_memory_target.STORAGE = TargetStorage()
    shop = Shop(tmp_path)
    shop.sql("DROP TABLE customers", "DROP TABLE notes")
    shop.document["newTablesIntervalSeconds"] = 1
    import os

    if os.environ.get("KEEP"):
        for st in shop.document["stages"]:
            if st["plugin"]["type"] == "cdcSource":
                st["plugin"]["properties"]["keepChangesHours"] = 1

    def execute(statements):
        with contextlib.closing(sqlite3.connect(shop.path, timeout=30, isolation_level=None)) as database:
            for statement in ("BEGIN IMMEDIATE", *statements, "COMMIT"):
                database.execute(statement)
            seq = (
                database.execute("SELECT seq FROM sqlite_sequence WHERE name='_replicator_changes'").fetchall()
                if database.execute("select 1 from sqlite_schema where name='_replicator_changes'").fetchall()
                else []
            )
            print("EXEC", seq, "; ".join(statements), flush=True)

    storm = Storm(execute, m._create, m._rename, random.Random(seed), shop.document, Host(), longer="v || '!'")

    def source():
        with contextlib.closing(sqlite3.connect(shop.path, timeout=30)) as database:
            return {name: sorted(database.execute(f"SELECT * FROM {name}")) for name in storm.kinds}

    def target():
        kept = in_memory_target.STORAGE.tables
        return {table.table: sorted(rows.rows.elements()) for table, rows in kept.items()}

    try:
        storm.whole(source, target, seconds=15)
    except BaseException as e:
        with contextlib.closing(sqlite3.connect(shop.path)) as db:
            print("DIFF", str(e)[:400])
            for r in db.execute("SELECT * FROM _replicator_changes ORDER BY id DESC LIMIT 120").fetchall()[::-1]:
                print("CH", [x for x in r if x is not None])
            for r in db.execute(
                "SELECT version, json_extract(table_schema,'$.table'), since, live FROM _replicator_tables"
            ):
                print("VE", r)
            for r in db.execute("SELECT name,tbl_name FROM sqlite_schema WHERE type='trigger'"):
                print("TR", r)
        raise AssertionError("differs " + str(e)[:200]) from None
