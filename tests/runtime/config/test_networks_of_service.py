"""In a process that a service starts, a pipeline names no host that the service does not allow, whatever its name leads to."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from replicator_runtime import networks_of_service
from replicator_sdk.errors import ConfigError
from replicator_sdk.outgoing.networks import NETWORKS, Networks
from tests.runtime.config.conftest import Build, pipeline, problems_of

PLACE = "stages[0].plugin.properties.path"


@pytest.fixture(autouse=True)
def own_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of one test are no names of the next one."""
    monkeypatch.setattr(socket, "getaddrinfo", socket.getaddrinfo)
    monkeypatch.setattr(networks_of_service, "_guard", networks_of_service._Guard())


@pytest.fixture
def off_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a service that others reach."""
    monkeypatch.setenv(NETWORKS, Networks(loopback=False).text())
    monkeypatch.setenv("HOST", "localhost")


@pytest.mark.parametrize(
    "text",
    [
        "${env(HOST)}",
        "http://${env(HOST)}:9000/x",
        "127.0.0.1",
        "10.0.0.7,127.0.0.1:9092",
        "simplecache::http://127.1/x",
        "http://0x7f000001/",
        "LOCALHOST.",
        "[::1]:5432",
        "metadata.google.internal",
        "2852039166",
        "https://127.0.0.1\\@db.example.com/x",
        "http:/\\127.0.0.1/x",
        "https:127.0.0.1",
        "http://127.0.\n0.1/x",
        "http://\uff11\uff12\uff17.0.0.1/x",
    ],
)
def test_hosts_are_refused_when_macros_have_their_values(build: Build, off_loopback: None, text: str) -> None:
    found = problems_of(build, pipeline({"path": text}))
    assert found[PLACE].endswith("name a host whose addresses the service allows")


@pytest.mark.parametrize("text", ["10.0.0.7", "5432", "a\\b", "C:\\x", "public/orders", "s3://bucket/x", "1.2", "0"])
def test_other_values_are_not(build: Build, off_loopback: None, text: str) -> None:
    build(pipeline({"path": text}))


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("offsetBasePath", "http://${env(HOST)}/state", "offsetBasePath"),
        ("archive", {"path": "http://127.0.0.1/archive"}, "archive.path"),
        (
            "spark",
            {"conf": {"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000"}},
            "spark.conf.spark.hadoop.fs.s3a.endpoint",
        ),
    ],
)
def test_hosts_elsewhere_in_a_pipeline_are_refused(
    build: Build, off_loopback: None, key: str, value: Any, place: str
) -> None:
    assert place in problems_of(build, pipeline(**{key: value}))


def test_only_the_networks_that_the_service_names_are_reached(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NETWORKS, Networks((ipaddress.ip_network("10.0.0.0/8"),)).text())
    build(pipeline({"path": "10.0.0.7"}))
    assert PLACE in problems_of(build, pipeline({"path": "192.168.0.1:5432"}))
    build(pipeline({"path": "5432"}))


def test_a_name_that_leads_elsewhere_after_it_was_looked_at_is_not_connected_to(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads_to = "10.0.0.7"

    def resolve(host: Any, *words: Any, **named: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (leads_to, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv(NETWORKS, Networks().text())
    build(pipeline({"path": "https://api.example.com/x"}))
    build(pipeline({"path": "db.example.com"}))
    assert socket.getaddrinfo("db.example.com", 5432)
    build(pipeline({"path": "b\u00fccher.example.com"}))
    leads_to = "169.254.169.254"
    for name in (
        "db.example.com",
        "DB.example.com.",
        "api.example.com",
        "bucket.api.example.com",
        "xn--bcher-kva.example.com",
    ):
        with pytest.raises(ConfigError) as found:
            socket.create_connection((name, 80), timeout=1)
        assert found.value.code == "RPL-1902"
    assert socket.getaddrinfo("others.example.com", 80), "of names that no pipeline has named, nothing is said"
    assert PLACE in problems_of(build, pipeline({"path": "https://api.example.com/x"}))


def test_without_a_service_every_host_may_be_named(
    build: Build, off_loopback: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NETWORKS)
    build(pipeline({"path": "${env(HOST)}"}))
