"""What goes wrong outside ends in one line with a code and the next step, a documented exit code, and nothing lost.

The target is the one without Spark wherever the target is not what fails.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import errors
from tests.crash.file_target import file_target_rows, install_file_target
from tests.end_to_end.replicator import Ended, Replicator, postgres_source
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase
from tests.services.processes import free_port

_ERRORS = Path(__file__).parents[3] / "docs/errors.md"


@dataclass
class Pair:
    """A source table `item` and its replicator."""

    database: PostgresDatabase
    replicator: Replicator

    def assert_nothing_lost(self) -> None:
        """Once the cause is fixed, a run ends with equal copies."""
        self.replicator.until_current()
        assert file_target_rows(self.replicator.folder / "target", "item") == Counter(
            self.database.execute("SELECT * FROM item")
        )

    def with_source(self, **properties: Any) -> Replicator:
        """The same replicator with other settings of the source."""
        return replace(self.replicator, source=postgres_source(self.database, **properties))

    def with_settings(self, **settings: Any) -> Replicator:
        """The same replicator with other keys of the pipeline JSON."""
        return replace(self.replicator, settings={**self.replicator.settings, **settings})


@pytest.fixture(scope="module")
def python_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return install_file_target(tmp_path_factory.mktemp("packages"))


def make_pair(database: PostgresDatabase, folder: Path, python_path: str) -> Pair:
    database.execute("CREATE TABLE item (id int PRIMARY KEY, name text)")
    database.execute("INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 100) i")
    replicator = Replicator(
        folder,
        postgres_source(database),
        ("file", {"path": str(folder / "target")}),
        {"retries": {"maxDurationSeconds": 4, "delaySeconds": 0.5}, "edits": "apply"},
        environment={"PYTHONPATH": python_path},
    )
    return Pair(database, replicator)


@pytest.fixture
def pair(postgres_database: PostgresDatabase, tmp_path: Path, python_path: str) -> Pair:
    return make_pair(postgres_database, tmp_path, python_path)


def assert_fails(ended: Ended, kind: type[errors.ReplicatorError], says: str, *, secret: str = "correct horse") -> None:
    """One line, a documented code, a next step, the exit code of its class, no traceback and no secret."""
    assert ended.status == kind.exit_code, ended.messages
    assert ended.error, ended.messages
    error: Mapping[str, Any] = ended.error
    assert re.fullmatch(r"RPL-\d{4}", error["code"])
    assert f"[{error['code']}]" in _ERRORS.read_text(), f"{error['code']} is not documented"
    assert says in error["message"]
    assert "\n" not in error["message"]
    assert len(error["hint"]) > 10
    assert "Traceback" not in ended.messages
    assert secret not in ended.messages


def test_a_wrong_password_needs_the_user(pair: Pair) -> None:
    wrong = pair.with_source(password="wrong battery").run("--until-current")
    assert_fails(wrong, errors.NeedsUserError, "password", secret="wrong battery")
    pair.assert_nothing_lost()


def test_a_missing_table_needs_the_user_and_is_named(pair: Pair) -> None:
    missing = pair.with_settings(tables=[{"schema": "public", "table": "itme"}]).run("--until-current")
    assert_fails(missing, errors.NeedsUserError, "itme")
    pair.assert_nothing_lost()


def test_an_unreachable_host_is_retried_for_the_given_time(pair: Pair) -> None:
    started = time.monotonic()
    ended = pair.with_source(port=free_port()).run("--until-current")
    assert time.monotonic() - started > 3
    assert_fails(ended, errors.RetryableError, "127.0.0.1")
    pair.assert_nothing_lost()


def test_an_unknown_key_is_named_with_the_nearest_known_one(pair: Pair) -> None:
    unknown = pair.with_settings(offsetBasePaht="/tmp/elsewhere").run("--until-current")
    assert_fails(unknown, errors.ConfigError, "offsetBasePaht")
    assert "offsetBasePath" in unknown.error["message"] + unknown.error["hint"]


def test_a_second_run_at_once_is_refused_and_the_first_continues(pair: Pair) -> None:
    first = pair.replicator.start()
    first.said("streaming")
    second = pair.replicator.run("--until-current")
    assert_fails(second, errors.NeedsUserError, "already running")
    pair.database.execute("INSERT INTO item VALUES (1000, 'meanwhile')")
    assert first.stop().status in {0, 143}
    pair.assert_nothing_lost()


def test_a_lost_slot_is_lost_history_and_stays_so(
    private_postgres: PrivatePostgres, tmp_path: Path, python_path: str
) -> None:
    """The server removed log that was not read yet (max_slot_wal_keep_size); going on would skip changes in silence."""
    server = private_postgres(max_slot_wal_keep_size="1MB", max_wal_size="32MB", min_wal_size="32MB")
    with server.database() as database:
        pair = make_pair(database, tmp_path, python_path)
        pair.replicator.until_current()
        database.execute("CREATE TABLE filler (text text)")
        for _ in range(6):
            database.execute("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 30000)")
            database.execute("SELECT pg_switch_wal()")
            database.execute("CHECKPOINT")
        database.execute("INSERT INTO item VALUES (1001, 'after the loss')")
        for _ in range(2):
            lost = pair.replicator.run("--until-current")
            assert_fails(lost, errors.HistoryLostError, "slot")


def test_a_damaged_newest_offset_falls_back_to_the_one_before(pair: Pair) -> None:
    pair.replicator.until_current()
    pair.database.execute("INSERT INTO item VALUES (1002, 'second run')")
    pair.replicator.until_current()
    newest = max(pair.replicator.state.glob("default/shop/1/offset.*"))
    newest.write_bytes(newest.read_bytes()[:-3] + b"???")
    pair.database.execute("DELETE FROM item WHERE id < 10")
    pair.assert_nothing_lost()


def test_only_damaged_offsets_never_mean_a_start_from_scratch(pair: Pair) -> None:
    pair.replicator.until_current()
    for offset in pair.replicator.state.glob("default/shop/1/offset.*"):
        offset.write_bytes(b"\0" * 20)
    damaged = pair.replicator.run("--until-current")
    assert_fails(damaged, errors.NeedsUserError, "offset")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; needs root, as tests in a container have it."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("ab", buffering=0) as opened:
        while True:
            opened.write(b"\0" * 1024)


def test_a_full_disk_for_the_state_needs_the_user(pair: Pair, tiny_disk: Path) -> None:
    small = pair.with_settings(offsetBasePath=str(tiny_disk / "state"))
    small.until_current()
    filler = tiny_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill(filler)
    pair.database.execute("UPDATE item SET name = 'changed'")
    assert_fails(small.run("--until-current"), errors.NeedsUserError, "full")
    filler.unlink()
    replace(pair, replicator=small).assert_nothing_lost()


@pytest.mark.timeout(240)
def test_a_target_that_cannot_be_written_needs_the_user_and_is_named(pair: Pair) -> None:
    """The lake's place is a file."""
    pair.replicator.folder.mkdir(exist_ok=True)
    pair.replicator.lake.write_text("not a folder")
    blocked = replace(pair.replicator, target=None).run("--until-current", seconds=200)
    assert_fails(blocked, errors.NeedsUserError, str(pair.replicator.lake))
    pair.assert_nothing_lost()
