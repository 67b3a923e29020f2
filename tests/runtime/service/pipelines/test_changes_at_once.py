"""Of two changes of one pipeline at the same moment none is lost; SQLite begins a transaction at its first write, unless it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator_runtime.service.pipelines import changes
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Pipeline

_TIMES = 15
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(changes, "checked", lambda context, namespace, name, config: str(dict(config)))
    database = Database(f"sqlite:///{tmp_path}/service.db")
    database.prepare()
    yield SimpleNamespace(database=database, supervisor=SimpleNamespace(wake=lambda: None))
    database.close()


def stored(context: Any, name: str) -> Pipeline:
    database: Database = context.database
    with database.session() as session:
        return session.get_one(Pipeline, ("default", name))


def at_once(context: Any, name: str, *asked: Callable[[], None]) -> list[int]:
    """Create a pipeline, and do all at one moment; which were accepted."""
    with context.database.session() as session:
        session.add(
            Pipeline(namespace="default", name=name, created=CREATED, updated=CREATED, config="{}", wanted="stopped")
        )
    barrier, accepted = threading.Barrier(len(asked)), []

    def do(number: int) -> None:
        barrier.wait()
        try:
            asked[number]()
        except ProblemError:
            return
        accepted.append(number)

    threads = [threading.Thread(target=do, args=(number,)) for number in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return accepted


def test_of_two_edits_of_one_version_one_is_accepted(context: Any) -> None:
    for number in range(_TIMES):
        name = f"edited{number}"
        version = changes.etag(1, CREATED)
        edits = [partial(changes.edit, context, "default", name, {"who": who}, version) for who in "ab"]
        [accepted] = at_once(context, name, *edits)
        assert stored(context, name).config == str({"who": "ab"[accepted]})


def test_a_delete_that_was_accepted_is_not_undone_by_a_start(context: Any) -> None:
    for number in range(_TIMES):
        name = f"deleted{number}"
        delete = partial(changes.delete, target_tables=False, keep_source=False)
        accepted = at_once(
            context,
            name,
            partial(delete, context, "default", name, None),
            partial(changes.start, context, "default", name),
        )
        assert 0 in accepted
        assert stored(context, name).wanted == "deleting"
