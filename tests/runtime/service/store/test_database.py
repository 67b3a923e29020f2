"""The service's database over starts and releases, in SQLite and in a real Postgres."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, inspect, text

from replicator_runtime.service.store import upgrade
from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Base
from replicator_sdk.errors import ConfigError, RetryableError
from tests.runtime.service.services import running
from tests.services.postgres.server import PostgresDatabase


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new' / 'service.db'}"
    database: PostgresDatabase = request.getfixturevalue("postgres_database")
    return f"postgresql://{database.user}:{database.password}@{database.host}:{database.port}/{database.name}"


def test_services_that_start_at_once_all_succeed(url: str) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)

    def start() -> None:
        database = Database(url)
        try:
            barrier.wait()
            database.prepare()
        except BaseException as failure:  # noqa: BLE001 - shown below
            failures.append(failure)
        finally:
            database.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    database = Database(url)
    database.prepare()
    assert set(Base.metadata.tables) < set(inspect(database.engine).get_table_names())
    database.close()


def test_the_migrations_lead_to_the_tables_of_the_code(url: str) -> None:
    database = Database(url)
    database.prepare()
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    database.close()


def test_a_database_of_a_newer_release_is_refused_and_stays_as_it_is(url: str) -> None:
    database = Database(url)
    database.prepare()
    with database.session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = 'later'"))
    with pytest.raises(ConfigError, match="newer release") as refused:
        database.prepare()
    assert refused.value.code == "RPL-1509"
    with database.session() as session:
        assert session.execute(text("SELECT version_num FROM alembic_version")).scalar() == "later"
    database.close()


def test_an_upgrade_that_fails_leaves_nothing(url: str) -> None:
    database = Database(url)

    def refuse(*call: Any) -> None:
        if "CREATE TABLE tokens" in call[2]:
            raise ConnectionResetError("the server has ended")

    event.listen(database.engine, "before_cursor_execute", refuse)
    with pytest.raises(RetryableError):
        database.prepare()
    event.remove(database.engine, "before_cursor_execute", refuse)
    assert inspect(database.engine).get_table_names() == []
    database.prepare()
    assert "tokens" in inspect(database.engine).get_table_names()
    database.close()


def test_the_newest_revision_is_the_one_the_code_knows() -> None:
    settings = Config()
    settings.set_main_option("script_location", str(Path(upgrade.__file__).with_name("migrations")))
    assert ScriptDirectory.from_config(settings).get_heads() == [upgrade.REVISION]


def test_a_sqlite_file_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "service.db"
    database = Database(f"sqlite:///{path}")
    database.prepare()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    database.close()


@pytest.mark.parametrize("url", ["mysql://u@h/d", "sqlite://", "sqlite:///:memory:", "nothing", "postgres:secret@x"])
def test_a_url_of_no_such_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Database(url)
    assert refused.value.code == "RPL-1511"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://u:hidden@127.0.0.1:1/d", "sqlite:////proc/nowhere/service.db"])
def test_a_database_that_cannot_be_used_is_named_without_its_password(url: str) -> None:
    database = Database(url)
    with pytest.raises(RetryableError) as refused:
        database.prepare()
    assert refused.value.code == "RPL-1512"
    assert "hidden" not in str(refused.value)
    database.close()


def test_drafts_are_kept_in_a_real_postgres(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    one = postgres_database
    url = f"postgresql://{one.user}:{one.password}@{one.host}:{one.port}/{one.name}"
    path = "/v1/contexts/default/drafts/kept"
    with running(tmp_path / "first", store=url) as service:
        body = json.dumps({"config": {"a": "ü\U0001f600"}, "label": "ü"})
        tag = service.client.put(path, content=body, headers={"Content-Type": "application/json"}).headers["ETag"]
        assert service.client.put(path, json={"config": {}}, headers={"If-Match": '"0-0"'}).status_code == 412
    with running(tmp_path / "second", store=url) as service:
        found = service.client.get(path)
        assert found.headers["ETag"] == tag
        assert found.json()["config"] == {"a": "ü\U0001f600"}
        assert service.client.delete(path, headers={"If-Match": tag}).status_code == 204


def test_the_file_of_a_new_database_shrinks_when_rows_are_deleted(tmp_path: Path) -> None:
    file = tmp_path / "service.db"
    database = Database(f"sqlite:///{file}")
    database.prepare()

    def size() -> int:
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return file.stat().st_size

    before = size()
    with database.session() as session:
        session.execute(text("CREATE TABLE long (result TEXT)"))
        session.execute(text("INSERT INTO long VALUES (:result)"), {"result": "x" * 1_000_000})
    assert size() > before + 900_000
    with database.session() as session:
        session.execute(text("DELETE FROM long"))
    assert size() < before + 100_000
    database.close()
