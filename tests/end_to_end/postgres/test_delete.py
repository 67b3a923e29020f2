"""`replicator delete` at a real PostgreSQL: slot and publication are gone, others stay, killed at each step; into Delta, with its tables."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.crash import kill_points
from tests.crash.kills import killed
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase

_OTHER_SLOT, _OTHER_PUBLICATION = "of_another_program", "Another's"


@pytest.fixture
def database(postgres_database: PostgresDatabase) -> PostgresDatabase:
    for statement in (
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "CREATE TABLE note (id int PRIMARY KEY, name text)",
        "ALTER TABLE note REPLICA IDENTITY FULL",
        "INSERT INTO item SELECT n, 'row ' || n FROM generate_series(1, 50) n",
        "INSERT INTO note SELECT n, 'row ' || n FROM generate_series(1, 50) n",
        f"SELECT pg_create_logical_replication_slot('{_OTHER_SLOT}_{postgres_database.name}', 'pgoutput')",
        f'CREATE PUBLICATION "{_OTHER_PUBLICATION}" FOR TABLE item',
    ):
        postgres_database.execute(statement)
    return postgres_database


def replicator(folder: Path, database: PostgresDatabase, name: str = "shop", **source: object) -> Replicator:
    folder.mkdir(exist_ok=True)
    tables = [{"database": database.name, "table": table} for table in ("item", "note")]
    made = Replicator(folder, postgres_source(database, **source), settings={"tables": tables, "name": name})
    made.pipeline.write_text(json.dumps(made.document()))
    return made


def slots(database: PostgresDatabase) -> set[str]:
    found = database.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
    return {name for (name,) in found}


def publications(database: PostgresDatabase) -> set[str]:
    return {name for (name,) in database.execute("SELECT pubname FROM pg_publication")}


def assert_equal(made: Replicator, database: PostgresDatabase) -> None:
    for table in ("item", "note"):
        copied = delta_rows(made.lake / "public" / table, ["id", "name"])
        assert Counter(copied) == Counter(database.execute(f"SELECT id, name FROM {table}"))


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_slot_and_publication_are_gone_and_those_of_others_stay(tmp_path: Path, database: PostgresDatabase) -> None:
    """Beside it another replicator of the same tables goes on."""
    ours, others = replicator(tmp_path / "ours", database), replicator(tmp_path / "others", database, "other")
    running = ours.start()
    others.until_current()
    wait_until((ours.lake / "public" / "note" / "_delta_log").exists, "a copy")
    refused = ours.start_command("delete", str(ours.pipeline), "--yes").wait()
    assert (refused.status, refused.error["code"]) == (3, "RPL-7130")
    assert running.stop().status == 143
    assert len(slots(database)) == 3
    killed_at = sorted(kill_points.OF_DELETE_AT_POSTGRES)
    command = ("delete", str(ours.pipeline), "--yes")
    for point in killed_at:
        killed(ours.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
        assert ours.run("--until-current").error["code"] == "RPL-1240"
    ended = ours.start_command(*command, "--target-tables").wait()
    assert ended.status == 0, ended.messages
    [kept] = slots(database) - {f"{_OTHER_SLOT}_{database.name}"}
    assert "other" in kept
    assert publications(database) == {_OTHER_PUBLICATION, kept}
    assert not ours.state.joinpath("default", "shop").exists()
    assert not any(DeltaTable.is_deltatable(str(ours.lake / "public" / table)) for table in ("item", "note"))
    for number in range(3):
        database.execute(f"INSERT INTO item VALUES ({1000 + number}, 'later')")
        database.execute(f"ALTER TABLE note ADD extra_{number} int")
        ours.until_current()
        assert_equal(ours, database)
    others.until_current()
    assert_equal(others, database)


def test_what_a_replicator_of_the_same_name_with_its_state_elsewhere_created_stays(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    """The second one is refused when it starts; its deletion dropped the first one's slot, if no session used it just then."""
    first, second = replicator(tmp_path / "first", database), replicator(tmp_path / "second", database)
    first.until_current()
    database.execute("INSERT INTO item VALUES (1000, 'while none runs')")
    before = slots(database), publications(database)
    assert second.run("--until-current").error["code"] == "RPL-3214"
    ended = second.start_command("delete", str(second.pipeline), "--yes").wait()
    assert ended.status == 0, ended.messages
    left = "\n".join(ended.envelope["data"]["left"])
    [slot] = [name for name in before[0] if name.startswith("replicator_")]
    assert f"replication slot {slot}: the replicator's state has not created it" in left
    assert f"publication {slot}: the replicator's state has not created it" in left
    assert f"SELECT pg_drop_replication_slot('{slot}');" in left
    assert (slots(database), publications(database)) == before
    assert not second.state.joinpath("default", "shop").exists()
    for number in range(3):
        database.execute(f"INSERT INTO item VALUES ({2000 + number}, 'later')")
        database.execute(f"ALTER TABLE note ADD extra_{number} int")
        first.until_current()
        assert_equal(first, database)


def test_what_the_pipeline_names_stays_and_is_listed_with_its_statement(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    slot = f"named_{database.name}"
    made = replicator(tmp_path, database, slot=slot, publication="named")
    made.until_current()
    ended = made.start_command("delete", str(made.pipeline), "--yes").wait()
    assert ended.status == 0, ended.messages
    left = "\n".join(ended.envelope["data"]["left"])
    assert f"SELECT pg_drop_replication_slot('{slot}');" in left
    assert 'DROP PUBLICATION IF EXISTS "named";' in left
    assert "REPLICA IDENTITY FULL of public.note" in left
    assert "public.item" in left  # the target's tables
    assert slot in slots(database)
    assert "named" in publications(database)
    assert_equal(made, database)


def test_a_source_that_cannot_be_reached_is_left_with_its_statements(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    made = replicator(tmp_path, database)
    made.until_current()
    gone = json.loads(made.pipeline.read_text())
    gone["stages"][0]["plugin"]["properties"]["port"] = 1
    made.pipeline.write_text(json.dumps(gone))
    refused = made.start_command("delete", str(made.pipeline), "--yes").wait()
    assert (refused.status, refused.error["code"]) == (4, "RPL-1243")
    [slot] = [name for name in slots(database) if name.startswith("replicator_")]
    assert f"SELECT pg_drop_replication_slot('{slot}');" in refused.error["hint"]
    assert made.state.joinpath("default", "shop").exists()
    ended = made.start_command("delete", str(made.pipeline), "--yes", "--keep-source").wait()
    assert ended.status == 0, ended.messages
    assert f"SELECT pg_drop_replication_slot('{slot}');" in "\n".join(ended.envelope["data"]["left"])
    assert slot in slots(database)
    assert not made.state.joinpath("default", "shop").exists()
