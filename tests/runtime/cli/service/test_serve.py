"""`replicator serve` and `replicator token`, as a person gives them."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.follows import follows
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.service.served import Served, served


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service")) as service:
        yield service


def token(replicator: Replicator, store: str, *options: str) -> str:
    return replicator("token", "create", "--store", store, *options).stdout.strip()


def test_the_first_start_says_how_to_create_a_token(running: Served) -> None:
    assert f"`replicator token create --role admin --store {running.store}`" in running.messages.read_text()


@follows("RPL-1540")
def test_a_token_that_was_created_beside_the_service_is_good_until_it_is_revoked(
    replicator: Replicator, running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("status", "shop", "--server", running.url)
    refused = replicator(*words)
    assert (refused.exit_code, "RPL-1540" in refused.stderr) == (3, True)
    made = json.loads(replicator("token", "create", "--role", "viewer", "--store", running.store, "--json").stdout)
    monkeypatch.setenv("REPLICATOR_TOKEN", made["data"]["token"])
    accepted = replicator(*words)
    assert "RPL-1540" not in accepted.stderr
    replicator("token", "revoke", made["data"]["id"], "--store", running.store)
    assert "RPL-1540" in replicator(*words).stderr


def test_a_viewer_may_not_pause_anything(
    replicator: Replicator, running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_TOKEN", token(replicator, running.store, "--role", "viewer"))
    done = replicator("pause", "shop", "--server", running.url)
    assert (done.exit_code, "RPL-1541" in done.stderr) == (3, True)


def test_tokens_are_listed_without_their_text(replicator: Replicator, running: Served) -> None:
    text = token(
        replicator, running.store, "--role", "operator", "--label", "deploy", "--namespace", "team", "--expires", "30d"
    )
    listed = replicator("token", "list", "--store", running.store, "--json").stdout
    found = next(one for one in json.loads(listed)["data"] if one["label"] == "deploy")
    assert (found["role"], found["namespace"], found["state"]) == ("operator", "team", "valid")
    assert found["expires"] is not None
    assert text.startswith("rpl_")
    assert text not in listed


def test_only_the_token_is_printed_on_standard_output(replicator: Replicator, running: Served) -> None:
    done = replicator("token", "create", "--role", "viewer", "--store", running.store)
    assert len(done.stdout.split()) == 1
    assert done.stdout.strip() not in done.stderr


@follows("RPL-1587")
def test_revoking_what_is_none_is_refused(replicator: Replicator, running: Served) -> None:
    done = replicator("token", "revoke", "01K6Z0X3V4M2T8Q9R7S5W1Y0AB", "--store", running.store)
    assert (done.exit_code, "RPL-1587" in done.stderr) == (3, True)
    listed = json.loads(replicator("token", "list", "--store", running.store, "--json").stdout)["data"]
    token_id = listed[0]["id"]
    assert replicator("token", "revoke", token_id, "--store", running.store).exit_code == 0


@pytest.mark.parametrize("duration", ["30", "0d", "-1d", "99999d", "1y", "soon"])
def test_a_duration_that_is_none_creates_no_token(replicator: Replicator, tmp_path: Path, duration: str) -> None:
    store = f"sqlite:///{tmp_path / 'service.db'}"
    done = replicator("token", "create", "--role", "viewer", "--expires", duration, "--store", store)
    assert "RPL-1588" in done.stderr
    assert not (tmp_path / "service.db").exists()


def test_database_and_work_folder_are_this_users_alone(running: Served) -> None:
    file = Path(running.store.removeprefix("sqlite:///"))
    assert file.stat().st_mode & 0o077 == 0
    assert (file.parent / "service-work").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path, "--auth", "none") as service:
        assert service.end(number) == 0


def test_without_tokens_it_listens_on_loopback_only(replicator: Replicator, tmp_path: Path) -> None:
    done = replicator("serve", "--auth", "none", "--host", "0.0.0.0", "--store", f"sqlite:///{tmp_path / 's.db'}")
    assert (done.exit_code, "RPL-1543" in done.stderr) == (3, True)


def test_a_port_that_is_taken_is_said_to_be(replicator: Replicator, running: Served, tmp_path: Path) -> None:
    port = running.url.rpartition(":")[2]
    done = replicator("serve", "--auth", "none", "--port", port, "--store", f"sqlite:///{tmp_path / 's.db'}")
    assert (done.exit_code, "RPL-1544" in done.stderr) == (3, True)


def test_everything_has_a_default(replicator: Replicator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert token(replicator, "", "--role", "admin").startswith("rpl_")
    assert (tmp_path / "replicator-service" / "service.db").exists()


@pytest.mark.parametrize(
    "store",
    ["sqlite://", "sqlite:///:memory:", "mysql://me:secret@db/x", "service.db", "postgresql+other://me:secret@db/x"],
)
def test_a_store_that_is_none_is_refused_without_being_repeated(replicator: Replicator, store: str) -> None:
    done = replicator("token", "list", "--store", store)
    assert (done.exit_code, "RPL-1586" in done.stderr) == (3, True)
    assert "secret" not in done.output


def test_the_password_of_a_store_is_a_reference(replicator: Replicator) -> None:
    done = replicator("token", "list", "--store", "postgresql://me:${secure(no-such-secret)}@127.0.0.1:1/x")
    assert (done.exit_code, "RPL-1004" in done.stderr) == (3, True)


def test_without_the_extra_the_pip_command_is_named(replicator: Replicator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    for words in (["serve"], ["token", "list"]):
        done = replicator(*words)
        assert done.exit_code == 3
        assert "RPL-1580" in done.stderr
        assert "Next: pip install 'replicator[service]'" in done.stderr
