"""Files of the state that are damaged, or of several moments, are refused; what the error advises makes the copy whole."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.run_state.plugin_contexts import source_key
from replicator_sdk.errors import HistoryLostError
from replicator_source_mysql import MySqlOffset
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY
from tests.follows import follows
from tests.runtime.engine.next_steps.test_servers import ServerShop, mariadb
from tests.runtime.engine.test_run import shop

__all__ = ["mariadb", "shop"]


def values_of(state: str, key: str) -> list[Path]:
    """The files of a value that the last run wrote, without those of the version before it."""
    return [file for file in Path(state).rglob(f"state-*{key}.*") if not file.name.endswith(".previous")]


def change(shop: ServerShop) -> None:
    """A column has another name, and rows have values in it."""
    shop.database.execute("ALTER TABLE notes CHANGE name title varchar(20), ADD name varchar(20)")
    shop.database.execute("INSERT INTO notes (id, title) VALUES (10, 'said')")


def after(shop: ServerShop) -> None:
    """What the next run would get wrong."""
    shop.database.execute("INSERT INTO notes (id, title, name) VALUES (11, 'title', 'name')")


def damaged(shop: ServerShop, key: str) -> None:
    """The file of a value cannot be read, and the version before it can."""
    [file] = values_of(shop.state, key)
    file.write_bytes(b"junk")


def copied_while_it_ran(shop: ServerShop, key: str, backup: Path) -> None:
    """The file of a value is from before the last run."""
    for file in values_of(shop.state, key):
        [before] = values_of(str(backup), key)
        shutil.copy(before, file)


def missing(shop: ServerShop, key: str) -> None:
    """A backup had no file of the value."""
    files = [
        file for file in Path(shop.state).rglob("state-*") if key in file.name and not file.name.startswith("damaged")
    ]
    assert files
    for file in files:
        file.unlink()


@follows("RPL-7125")
@pytest.mark.parametrize("key", ["schema-history", "engine-tables"])
@pytest.mark.parametrize("why", ["damaged", "copied while it ran", "missing"])
def test_a_state_whose_values_are_older_than_its_offset_is_refused_until_a_reset(
    mariadb: ServerShop, tmp_path: Path, key: str, why: str
) -> None:
    mariadb.run()
    backup = shutil.copytree(mariadb.state, tmp_path / "backup")
    change(mariadb)
    mariadb.run()
    if why == "damaged":
        damaged(mariadb, key)
    elif why == "missing":
        missing(mariadb, key)
    else:
        copied_while_it_ran(mariadb, key, backup)
    after(mariadb)
    for _ in range(2):
        with pytest.raises(HistoryLostError, match=r"RPL-7125.*replicator reset PIPELINE"):
            mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()


def test_files_of_one_moment_are_gone_on_from(mariadb: ServerShop, tmp_path: Path) -> None:
    mariadb.run()
    change(mariadb)
    mariadb.run()
    backup = shutil.copytree(mariadb.state, tmp_path / "backup")
    damaged(mariadb, "schema-history")
    with pytest.raises(HistoryLostError, match=r"RPL-7125.*put back all files"):
        mariadb.run()
    shutil.rmtree(mariadb.state)
    shutil.copytree(backup, mariadb.state)
    after(mariadb)
    mariadb.three_runs()


@follows("RPL-3753")
def test_a_history_that_has_forgotten_the_time_of_the_offset_is_refused_until_a_reset(mariadb: ServerShop) -> None:
    """As when the offsets of an older backup are put beside a newer history."""
    mariadb.run()
    with open_run(mariadb.pipeline()) as opened:
        opened.load_offset()
        offset, stored = opened.saved_offset, opened.store.get(source_key(HISTORY_KEY))
        assert isinstance(offset, MySqlOffset)
        assert stored is not None
        history = SchemaHistory.load(stored)
        history.prune(replace(offset, position=offset.position + 1))
        opened.store.put(source_key(HISTORY_KEY), history.dump())
    mariadb.database.execute("DELETE FROM customers WHERE id = 1")
    with pytest.raises(HistoryLostError, match=r"RPL-3753.*replicator reset PIPELINE"):
        mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()
