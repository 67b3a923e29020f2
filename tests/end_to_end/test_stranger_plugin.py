"""A source and a target from a package outside this tree, installed by pip and named in a pipeline JSON."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.stranger import Stranger, pip_install


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pip_install(tmp_path_factory.mktemp("stranger"))


@pytest.fixture
def stranger(site: Path, tmp_path: Path) -> Stranger:
    made = Stranger(site, tmp_path)
    made.write_pipeline()
    made.append([["insert", {"id": 1, "name": "Sun"}], ["insert", {"id": 2, "name": "Vega"}]])
    return made


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_the_command_lists_a_strangers_plugins_with_their_package(stranger: Stranger) -> None:
    done = stranger.replicator("plugins", "--json")
    listed = {(p["name"], p["type"], p["package"]) for p in json.loads(done.stdout)["data"]}
    expected = {
        ("journal", "cdcSource", "stranger-journal 3.2.1"),
        ("ledger", "cdcTarget", "stranger-journal 3.2.1"),
    }
    assert expected <= listed


def test_a_run_brings_everything_and_the_next_one_goes_on_where_it_ended(stranger: Stranger) -> None:
    first = stranger.replicator("run", stranger.pipeline, "--until-current")
    assert first.returncode == 0, first.stderr
    assert stranger.stars() == {1: "Sun", 2: "Vega"}
    stranger.append(
        [["update", {"id": 3, "name": "Sun"}, {"id": 1}]],
        [["delete", {"id": 2}], ["insert", {"id": 1, "name": "Rigel"}], ["update", {"id": 1, "name": "Deneb"}]],
    )
    second = stranger.replicator("run", stranger.pipeline, "--until-current", "--json")
    assert second.returncode == 0, second.stderr
    assert stranger.stars() == {3: "Sun", 1: "Deneb"}
    ended = json.loads(second.stdout)["data"]
    assert (ended["upToDate"], ended["offset"]) == (True, f"byte {stranger.journal.stat().st_size}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_endless_run_in_order_and_another_run_goes_on(
    stranger: Stranger, number: signal.Signals, code: int
) -> None:
    with stranger.started("run", stranger.pipeline) as process:
        wait_for(lambda: stranger.stars() == {1: "Sun", 2: "Vega"})
        stranger.append([["insert", {"id": 3, "name": "Mira"}]])
        wait_for(lambda: 3 in stranger.stars())
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == code, errors
    assert "stopped at offset" in errors
    stranger.append([["delete", {"id": 3}]])
    assert stranger.replicator("run", stranger.pipeline, "--until-current").returncode == 0
    assert stranger.stars() == {1: "Sun", 2: "Vega"}


def test_a_killed_run_is_taken_over_at_once_and_loses_and_doubles_nothing(stranger: Stranger) -> None:
    with stranger.started("run", stranger.pipeline) as process:
        wait_for(lambda: len(stranger.stars()) == 2)
        for number in range(10, 200):
            stranger.append([["insert", {"id": number, "name": f"star {number}"}]])
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL
    done = stranger.replicator("run", stranger.pipeline, "--until-current")
    assert done.returncode == 0, done.stderr
    assert stranger.stars() == {1: "Sun", 2: "Vega"} | {n: f"star {n}" for n in range(10, 200)}


def test_status_and_offsets_show_the_run_without_connecting(stranger: Stranger) -> None:
    assert stranger.replicator("run", stranger.pipeline, "--until-current").returncode == 0
    size = stranger.journal.stat().st_size
    stranger.journal.unlink()  # nothing below may look at the source
    status = json.loads(stranger.replicator("status", stranger.pipeline, "--json").stdout)
    assert status["schema"] == "replicator.status/v1"
    assert status["data"]["offset"] == f"byte {size}"
    assert [(t["table"], t["state"], t["rows"]) for t in status["data"]["tables"]] == [("stars", "REPLICATING", 2)]
    by_name = stranger.replicator("status", "sky", "--base", stranger.folder / "state")
    assert "journal.stars  REPLICATING" in by_name.stdout
    shown = json.loads(stranger.replicator("offsets", "show", stranger.pipeline, "--json").stdout)["data"]
    assert (shown["offset"], shown["fields"]) == (f"byte {size}", {"bytes": str(size).encode().hex()})
    listed = json.loads(stranger.replicator("offsets", "list", stranger.pipeline, "--json").stdout)["data"]
    assert listed[0]["name"] == shown["name"]


def test_two_runs_of_one_replicator_at_once_are_refused_with_the_holders_name(stranger: Stranger) -> None:
    with stranger.started("run", stranger.pipeline) as process:
        wait_for(lambda: len(stranger.stars()) == 2)
        second = stranger.replicator("run", stranger.pipeline, "--until-current")
        assert second.returncode in (3, 4)
        error = [line for line in second.stderr.splitlines() if line.startswith("error RPL-")]
        assert len(error) == 1
        assert str(process.pid) in error[0]
    assert stranger.stars() == {1: "Sun", 2: "Vega"}


def test_an_error_of_the_plugins_own_ends_the_run_with_its_code_in_one_line(stranger: Stranger) -> None:
    stranger.journal.unlink()
    done = stranger.replicator("run", stranger.pipeline, "--until-current")
    assert done.returncode == 3
    assert [line for line in done.stderr.splitlines() if line.startswith("error ")] == [
        f"error JRN-0001: there is no journal {stranger.journal}. Next: write one"
    ]


def test_no_secret_of_a_setting_is_shown_by_any_command(stranger: Stranger) -> None:
    stranger.write_pipeline(password="${secure(sky)}", pasword="x")
    secret = "moonlight-77"
    wrong = stranger.replicator("validate", stranger.pipeline, REPLICATOR_SECRET_SKY=secret)
    assert wrong.returncode == 3
    assert 'did you mean "password"?' in wrong.stderr
    stranger.journal.rename(stranger.folder / f"{secret}.jsonl")
    stranger.write_pipeline(password="${secure(sky)}", path=str(stranger.folder / f"no-{secret}.jsonl"))
    done = stranger.replicator(
        "run", stranger.pipeline, "--until-current", "--log-level", "debug", "--debug", REPLICATOR_SECRET_SKY=secret
    )
    assert done.returncode == 3
    assert "JRN-0001" in done.stderr
    assert secret not in wrong.stdout + wrong.stderr + done.stdout + done.stderr
    status = stranger.replicator("status", stranger.pipeline, "--json")
    assert secret not in status.stdout + status.stderr


def error_of(stranger: Stranger, code: int) -> str:
    """The one line with which a bounded run ends."""
    done = stranger.replicator("run", stranger.pipeline, "--until-current")
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert ". Next: " in lines[0]
    return lines[0]


def test_a_table_that_is_not_there_is_named_with_the_nearest_one(stranger: Stranger) -> None:
    stranger.write_pipeline({"tables": [{"table": "star"}]})
    error = error_of(stranger, 3)
    assert error.startswith("error RPL-2001: ")
    assert "stars" in error


def test_an_unknown_key_is_named_with_the_nearest_one(stranger: Stranger) -> None:
    stranger.write_pipeline({"retrys": {}})
    assert error_of(stranger, 3).startswith(
        'error RPL-1003: unknown key "retrys" [at retrys]. Next: did you mean "retries"?'
    )


def test_a_state_path_that_is_no_folder_is_named(stranger: Stranger) -> None:
    stranger.write_pipeline({"offsetBasePath": str(stranger.journal)})
    assert error_of(stranger, 3).startswith("error RPL-7104: ")


def test_a_damaged_newest_offset_is_passed_over_and_the_run_goes_on(stranger: Stranger) -> None:
    for number in (3, 4):
        assert stranger.replicator("run", stranger.pipeline, "--until-current").returncode == 0
        stranger.append([["insert", {"id": number, "name": f"star {number}"}]])
    newest = max((stranger.folder / "state" / "default" / "sky" / "1").glob("offset.*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    shown = stranger.replicator("offsets", "show", stranger.pipeline)
    assert f"warning: {newest.name} is passed over" in shown.stderr
    assert stranger.replicator("run", stranger.pipeline, "--until-current").returncode == 0
    assert set(stranger.stars()) == {1, 2, 3, 4}


def test_offsets_that_are_all_damaged_never_mean_to_start_from_scratch(stranger: Stranger) -> None:
    assert stranger.replicator("run", stranger.pipeline, "--until-current").returncode == 0
    before = stranger.stars()
    for file in (stranger.folder / "state" / "default" / "sky" / "1").glob("offset.*"):
        file.write_bytes(b"")
    assert error_of(stranger, 3).startswith("error RPL-7110: ")
    assert stranger.stars() == before
