"""Where metrics are shown: an address or a file that is had before the run does anything."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config import InvalidPipelineError, build_pipeline
from replicator_runtime.config.sections.metrics import Address, parsed_address
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.exposition.shown import Exposition, label
from replicator_sdk.errors import NeedsUserError
from tests.runtime.cli.conftest import Replicator, replicator, sqlite_pipeline  # noqa: F401 - fixtures
from tests.runtime.exposition.conftest import parsed


def config(folder: Path, **metrics: Any) -> Any:
    """The settings of a pipeline with the key `metrics`."""
    stages = [
        {"name": "in", "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": f"{folder}/x.db"}}},
        {"name": "out", "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": f"{folder}/lake"}}},
    ]
    document = {"name": "shop", "namespace": "eu", "stages": stages, "connections": [{"from": "in", "to": "out"}]}
    return build_pipeline({**document, "metrics": metrics}).config


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


_SIX = pytest.param("[::1]", marks=pytest.mark.skipif(not _has_ipv6(), reason="this host has no IPv6"))


@pytest.mark.parametrize("host", ["127.0.0.1", _SIX, ""])
def test_a_free_port_is_taken_and_served_until_the_run_ends(tmp_path: Path, host: str) -> None:
    exposition = Exposition(config(tmp_path, address=f"{host}:0"))
    with exposition.shown(Progress()):
        [address] = exposition.addresses
        assert address.startswith(f"http://{host or '127.0.0.1'}:")
        assert parsed(get(address))["replicator_phase", frozenset({("phase", "starting")})] == 1
    with pytest.raises(OSError, match="refused"):
        get(address)


def test_nothing_listens_and_nothing_is_imported_where_no_setting_asks(tmp_path: Path) -> None:
    exposition = Exposition(config(tmp_path))
    with exposition.shown(Progress()):
        assert exposition.addresses == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("9464", Address("127.0.0.1", 9464)),
        (":9464", Address("127.0.0.1", 9464)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("metrics.local:80", Address("metrics.local", 80)),
    ],
)
def test_addresses_without_a_host_are_of_the_loopback(text: str, meant: Address) -> None:
    assert parsed_address(text) == meant


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "::1:80", "host:65536", "http://host:80", "a b:1"])
def test_what_is_no_address_is_refused_with_the_pipeline(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidPipelineError, match=r"HOST:PORT.*at metrics\.address"):
        config(tmp_path, address=text)


def test_a_file_that_the_node_exporter_would_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPipelineError, match=r"\.prom"):
        config(tmp_path, textfile="metrics.txt")


def test_a_port_in_use_ends_the_command_before_anything_is_changed(
    replicator: Replicator,  # noqa: F811
    sqlite_pipeline: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = replicator("run", sqlite_pipeline, "--until-current", "--metrics-address", f"127.0.0.1:{port}", "--json")
    error = json.loads(done.stdout)["error"]
    assert (error["code"], done.exit_code) == ("RPL-7211", NeedsUserError.exit_code)
    assert f"127.0.0.1:{port}: address already in use" in error["message"]
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "lake").exists()


def test_a_file_that_cannot_be_written_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    with (
        pytest.raises(NeedsUserError, match=r"no such file or directory") as found,
        Exposition(config(tmp_path, textfile=str(tmp_path / "none" / "shop.prom"))).shown(Progress()),
    ):
        pytest.fail("the block is not entered")
    assert found.value.code == "RPL-7212"


def test_the_file_has_the_last_values_when_the_run_has_ended(tmp_path: Path) -> None:
    file, progress = tmp_path / "shop.prom", Progress()
    with Exposition(config(tmp_path, textfile=str(file))).shown(progress):
        assert 'replicator_phase{phase="starting",pipeline="eu/shop"} 1.0' in file.read_text()
        progress.set_phase("done")
    assert 'replicator_phase{phase="done",pipeline="eu/shop"} 1.0' in file.read_text()
    assert [path.name for path in tmp_path.glob("*.prom*")] == ["shop.prom"]


def test_a_wrong_option_names_it_and_ends_with_2(
    replicator: Replicator,  # noqa: F811
    sqlite_pipeline: Path,  # noqa: F811
) -> None:
    done = replicator("run", sqlite_pipeline, "--metrics-address", "nowhere")
    assert done.exit_code == 2
    assert "--metrics-address" in done.stderr


def test_pipelines_of_one_name_in_two_namespaces_have_labels_of_their_own(tmp_path: Path) -> None:
    assert label(config(tmp_path)) == "eu/shop"
    assert label(config(tmp_path).model_copy(update={"namespace": "default"})) == "shop"
