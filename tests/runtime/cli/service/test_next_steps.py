"""What errors of the service and of its remote form advise is done as it is printed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from replicator_runtime.cli.commands.service.demo_page import show_page
from replicator_runtime.cli.remote.client import Service
from replicator_runtime.service import serving
from replicator_runtime.service.settings import ServiceSettings
from replicator_sdk.errors import ReplicatorError, RetryableError
from tests.follows import advised, follows
from tests.runtime.cli.service.served import COMMAND, Served, served
from tests.runtime.service.operations.ran import Ran, ran
from tests.services.spark.session import JAVA_OPTIONS
from tests.waits import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.testing import Result

    from tests.runtime.cli.conftest import Replicator

__all__ = ["ran"]


class Desk:
    """Someone at a service that has the pipeline `shop`, which has run.

    Args:
        service: With tokens.
        folder: With its state, and the pipeline's file.
        replicator: The command.
    """

    def __init__(self, service: Served, folder: Path, replicator: Replicator) -> None:
        self.url, self.store, self.file = service.url, service.store, folder / "pipeline.json"
        self.replicator = replicator

    def done(self, *words: object) -> Result:
        """The command; it ends well."""
        done = self.replicator(*words)
        assert done.exit_code == 0, done.output
        return done

    def refused(self, code: str, *words: object) -> Result:
        """The command; it ends with this error."""
        ended = self.replicator(*words)
        assert f"error {code}: " in ended.stderr, ended.output
        return ended

    def there(self, *words: object) -> Result:
        """The command, given to the service; it ends well."""
        return self.done(*words, "--server", self.url)

    def token(self, *options: str) -> str:
        """A new token's text."""
        return self.done("token", "create", *options, "--store", self.store).stdout.strip()


def step(refused: Result, command: str) -> list[str]:
    """The words of the command that an error printed as its next step."""
    return advised([line.partition("Next: ")[2] for line in refused.stderr.splitlines()], command)


@pytest.fixture
def desk(ran: Ran, tmp_path: Path, replicator: Replicator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Whoever sits at it is an admin at first."""
    monkeypatch.setenv("PYTHONPATH", ran.python_path)
    monkeypatch.syspath_prepend(ran.python_path.partition(os.pathsep)[0])  # of the target
    ran.copy_to(tmp_path)
    (tmp_path / "pipeline.json").write_text(json.dumps({**ran.config, "offsetBasePath": str(tmp_path / "state")}))
    with served(tmp_path) as service:
        desk = Desk(service, tmp_path, replicator)
        monkeypatch.setenv("REPLICATOR_TOKEN", desk.token("--role", "admin"))
        Service(service.url).post("/v1/contexts/default/pipelines", {"name": "shop", "config": ran.config})
        yield desk


@follows("RPL-1541", "RPL-1584", "RPL-1501")
def test_a_token_with_the_role_that_is_needed_is_created_and_found_in_the_list(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = {"Authorization": f"Bearer {os.environ['REPLICATOR_TOKEN']}"}
    monkeypatch.setenv("REPLICATOR_TOKEN", "rpl_ of two words")
    refused = desk.refused("RPL-1584", "status", "shop", "--server", desk.url)
    monkeypatch.setenv("REPLICATOR_TOKEN", desk.token(*step(refused, "token create")[2:], "--role", "viewer"))
    assert "main.orders" in desk.there("status", "shop").stdout
    refused = desk.refused("RPL-1541", "table", "pause", "shop", "orders", "--server", desk.url)
    monkeypatch.setenv("REPLICATOR_TOKEN", desk.token(*step(refused, "token create")[2:]))
    desk.there("table", "pause", "shop", "orders")
    assert "main.orders is paused" in desk.there("status", "shop").stdout
    desk.there("table", "resume", "shop", "orders")

    unknown = httpx.delete(f"{desk.url}/v1/tokens/unknown", headers=admin).json()
    assert unknown["code"] == "RPL-1501"
    shown = desk.done(*advised([unknown["hint"]], "token list"), "--store", desk.store, "--json")
    [found] = [one["id"] for one in json.loads(shown.stdout)["data"] if one["role"] == "viewer"]
    assert httpx.delete(f"{desk.url}/v1/tokens/{found}", headers=admin).status_code == 200


@follows("RPL-1585", "RPL-1592")
def test_the_names_that_a_service_has_are_listed(desk: Desk, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"name": ')
    refused = desk.refused("RPL-1585", "status", damaged, "--server", desk.url)
    listed = desk.there(*step(refused, "list")).stdout
    assert "shop" in listed.split()
    refused = desk.refused("RPL-1592", "offsets", "show", "shop", "offset.1", "--server", desk.url)
    listed = desk.done(*step(refused, "offsets list")).stdout
    name = next(word for word in listed.split() if word.startswith("offset."))
    assert name in desk.there("offsets", "show", "shop", name).stdout


@follows("RPL-1589", "RPL-1590")
def test_a_pipeline_is_run_here_or_by_its_service(desk: Desk) -> None:
    refused = desk.refused("RPL-1589", "start", "shop")
    assert "`replicator run PIPELINE`" in refused.stderr
    desk.done("run", desk.file, "--until-current")
    refused = desk.refused("RPL-1590", "run", desk.file, "--until-current", "--server", desk.url)
    desk.done("run", desk.file, "--until-current")
    desk.there(*step(refused, "start"), "shop")
    place = "/v1/contexts/default/pipelines/shop"
    until(lambda: Service(desk.url).get(place)["phase"] == "streaming", "it runs")
    desk.there("stop", "shop")
    until(lambda: Service(desk.url).get(place)["state"] == "stopped", "it has ended")


@follows("RPL-1561")
def test_where_a_state_cannot_be_read_is_shown_and_a_run_writes_it_again(desk: Desk, tmp_path: Path) -> None:
    place = "/v1/contexts/default/pipelines/shop/tables"
    for status in (tmp_path / "state").rglob("state.*json"):
        status.write_text(json.dumps({**json.loads(status.read_text()), "tables": 5}))
    until(lambda: refusal(desk.url, place) is not None, "it is looked at")
    refused = refusal(desk.url, place)
    assert refused is not None
    assert refused.code == "RPL-1561"
    assert "`replicator status NAME --debug`" in refused.hint
    assert "'int' object is not iterable" in desk.replicator("status", desk.file, "--debug").output
    desk.done("run", desk.file, "--until-current")
    until(lambda: refusal(desk.url, place) is None, "it is read again")
    assert "main.orders" in [table["name"] for table in Service(desk.url).get(place)]


def refusal(url: str, place: str) -> ReplicatorError | None:
    """The error that a service answers with; None when it answers."""
    try:
        Service(url).get(place)
    except ReplicatorError as error:
        return error
    return None


@follows("RPL-1543")
def test_where_others_reach_a_service_it_is_started_with_tokens(
    replicator: Replicator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be started for all addresses then; this test has it listen on the loopback all the same."""
    store = f"sqlite:///{tmp_path / 'service.db'}"
    refused = replicator("serve", "--auth", "none", "--host", "0.0.0.0", "--store", store)
    assert "error RPL-1543: " in refused.stderr
    made = replicator(*step(refused, "token create"), "--store", store)
    serving.check(ServiceSettings(store, str(tmp_path / "state"), tmp_path / "work", host="0.0.0.0"))
    with served(tmp_path) as service:
        assert "RPL-1540" in replicator("list", "--server", service.url).stderr
        monkeypatch.setenv("REPLICATOR_TOKEN", made.stdout.strip())
        assert replicator("list", "--server", service.url).exit_code == 0


@follows("RPL-1545")
def test_a_name_of_a_proxy_is_given_to_the_service(tmp_path: Path) -> None:
    path, proxy = "/v1/contexts/default/pipelines", {"Host": "replicator.example"}
    with served(tmp_path, "--auth", "none") as service:
        refused = httpx.get(service.url + path, headers=proxy)
        assert refused.json()["code"] == "RPL-1545"
        assert "`replicator serve`" in refused.json()["hint"]
        assert httpx.get(service.url + path).status_code == 200
    with served(tmp_path, "--auth", "none", "--allowed-host", "replicator.example") as service:
        assert httpx.get(service.url + path, headers=proxy).status_code == 200
        assert httpx.get(service.url + path).status_code == 200


@follows("RPL-1515")
def test_a_service_that_shows_no_rows_shows_some_when_it_is_started_for_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        database.execute("INSERT INTO t VALUES (7)")
    database.close()
    draft = "/v1/contexts/default/drafts/shop"
    plugin = {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(path)}}
    config = {"config": {"stages": [{"name": "source", "plugin": plugin}]}}
    with served(tmp_path, "--auth", "none") as service:
        httpx.put(f"{service.url}{draft}", json=config, timeout=60).raise_for_status()
        refused = httpx.post(f"{service.url}{draft}/sampleTable", json={"table": "t"}, timeout=60)
        assert refused.json()["code"] == "RPL-1515"
    words = advised([refused.json()["hint"]], "serve")
    with served(tmp_path, "--auth", "none", *words[1:]) as service:
        shown = httpx.post(f"{service.url}{draft}/sampleTable", json={"table": "t"}, timeout=120)
        assert shown.json()["rows"] == [["7"]]


@follows("RPL-1581")
def test_a_service_that_is_away_is_started(
    replicator: Replicator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("REPLICATOR_SERVER", f"http://127.0.0.1:{port}")
    refused = replicator("list")
    assert "error RPL-1581: " in refused.stderr
    assert step(refused, "serve") == ["serve"]
    with served(tmp_path, "--auth", "none", "--port", str(port)):
        assert replicator("list").exit_code == 0


@follows("RPL-1591")
def test_what_a_cancelled_job_has_done_is_shown_and_it_is_given_again(
    desk: Desk, tmp_path: Path, replicator: Replicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone else cancels it. A delay at a named point of the code gives them the time."""
    monkeypatch.setenv("REPLICATOR_FAILPOINTS", "service.job.began=delay:10")
    other, jobs = tmp_path / "other", "/v1/contexts/default/jobs"
    shutil.copytree(tmp_path / "state", other / "state")
    with served(other, "--auth", "none") as service:
        client = Service(service.url)
        client.post("/v1/contexts/default/pipelines", {"name": "shop", "config": client_config(desk)})
        cancelled: list[object] = []

        def cancel() -> None:
            until(lambda: [one["state"] for one in client.get(jobs)] == ["running"], "it runs", seconds=300)
            cancelled.append(client.delete(f"{jobs}/{client.get(jobs)[0]['id']}"))

        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        words = ("reset", "shop", "--yes", "--server", service.url)
        refused = replicator(*words)
        cancelling.join()
        assert "error RPL-1591: " in refused.stderr, refused.output
        assert "generation 1" in desk.done(*step(refused, "status")).stdout
        again = replicator(*words)
        assert again.exit_code == 0, again.output
        assert "generation 2" in replicator("status", "shop", "--server", service.url).output


def client_config(desk: Desk) -> dict[str, object]:
    """The pipeline's JSON as a service takes it."""
    document: dict[str, object] = json.loads(desk.file.read_text())
    del document["offsetBasePath"]
    return document


@follows("RPL-1593")
def test_the_demonstration_works_without_its_page(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package is in the place of one that a service needs."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "uvicorn.py").write_text("raise ImportError('of another release')")
    demo = tmp_path / "demo"
    demo.mkdir()
    (demo / "pipeline.json").write_text(json.dumps(ran.config))
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        with pytest.raises(RetryableError) as raised:
            show_page(demo / "pipeline.json", print, print)
    assert raised.value.code == "RPL-1593"
    log, _, _ = raised.value.hint.partition(" says why")
    assert "of another release" in Path(log).read_text()
    words = [*COMMAND, *advised([raised.value.hint], "demo"), "--directory", str(tmp_path / "other")]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **JAVA_OPTIONS}
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "equal, every table" in done.stderr
