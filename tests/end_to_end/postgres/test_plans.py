"""An edit that replaces a table is approved before a run does it: a real PostgreSQL into Delta, by real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.postgres.test_edits import columns_of
from tests.end_to_end.replicator import Ended, Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase


@pytest.mark.timeout(600)
def test_a_column_is_taken_out_after_its_plan_was_approved(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    settings: dict[str, Any] = {}
    replicator = Replicator(tmp_path, postgres_source(postgres_database), settings=settings)
    people = replicator.lake / "public" / "people"

    def command(*arguments: str) -> Ended:
        return replicator.start_command(*arguments).wait()

    with postgres_database.connect() as connection:
        connection.execute("CREATE TABLE people (id bigint PRIMARY KEY, name text, card text)")
        connection.execute("INSERT INTO people SELECT i, 'n' || i, 'secret' FROM generate_series(1, 1000) i")
        connection.execute("ANALYZE people")
        replicator.until_current()
        settings["tables"] = [{"table": "people", "columns": ["name"]}]
        connection.execute("DELETE FROM people WHERE id > 900")
        refused = replicator.run("--until-current")
        assert (refused.status, refused.error["code"]) == (6, "RPL-1260")
        planned = command("plan", str(replicator.pipeline))
        assert (planned.status, planned.error["code"]) == (6, "RPL-1260")
        [step] = planned.envelope["data"]["steps"]
        assert (step["kind"], step["subject"], step["cost"]["rows"]) == ("columns", "public.people", 1000)
        assert columns_of(people) == {"id", "name", "card"}
        assert len(list(delta_rows(people, ["id", "name"]))) == 1000, "nothing was changed"
        plan_id = planned.envelope["data"]["plan"]
        approved = command("approve", "shop", plan_id, "--base", str(replicator.state))
        assert approved.status == 0, approved.messages
        replicator.until_current()
        assert columns_of(people) == {"id", "name"}
        assert len(list(delta_rows(people, ["id", "name"]))) == 900
        after = command("plan", str(replicator.pipeline))
        assert (after.status, after.envelope["data"]["steps"]) == (0, [])
