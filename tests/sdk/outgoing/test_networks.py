"""Which addresses a pipeline of a service may connect to."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from replicator_sdk.errors import ConfigError
from replicator_sdk.outgoing.networks import NETWORKS, Networks, addresses_of

METADATA = [
    "169.254.169.254",
    "fe80::1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "fd00:ec2::254",
]
OWN = [
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
]
OTHER = ["10.0.0.7", "192.168.1.1", "169.253.1.1", "2001:db8::1", "8.8.8.8"]


def refused(networks: Networks, addresses: list[str]) -> list[str]:
    return [text for text in addresses if networks.refusal(ipaddress.ip_address(text))]


def test_metadata_servers_are_refused_also_where_their_network_is_allowed() -> None:
    everything = tuple(map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")))
    for networks in (Networks(), Networks(loopback=False), Networks(everything)):
        assert refused(networks, METADATA) == METADATA
        assert refused(networks, OTHER) == []


def test_the_own_machine_is_refused_where_others_reach_the_service() -> None:
    assert refused(Networks(), OWN) == []
    assert refused(Networks(loopback=False), OWN) == OWN


def test_of_networks_that_are_named_no_others_are_reached() -> None:
    networks = Networks(tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "2001:db8::/32"))))
    assert refused(networks, [*OTHER, *OWN]) == ["192.168.1.1", "169.253.1.1", "8.8.8.8", *OWN]
    assert refused(Networks((ipaddress.ip_network("127.0.0.0/8"),), loopback=False), ["127.0.0.1", "10.0.0.7"]) == [
        "10.0.0.7"
    ]


def test_a_process_of_a_service_has_its_rules_and_another_process_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NETWORKS, raising=False)
    assert Networks.of_environment() is None
    assert addresses_of("localhost", 5432) == []
    for networks in (Networks(loopback=False), Networks((ipaddress.ip_network("10.0.0.0/8"),))):
        monkeypatch.setenv(NETWORKS, networks.text())
        assert Networks.of_environment() == networks


def test_a_name_is_looked_at_by_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NETWORKS, Networks().text())
    assert "127.0.0.1" in addresses_of("localhost", 5432)
    monkeypatch.setenv(NETWORKS, Networks(loopback=False).text())
    for host in ("localhost", "127.1", "2130706433", "0"):
        with pytest.raises(ConfigError) as found:
            addresses_of(host, 5432)
        assert found.value.code == "RPL-1902"
        assert "127.0.0.1" not in str(found.value)


def test_one_refused_address_of_several_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NETWORKS, Networks().text())

    def resolve(*words: Any, **named: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, 5432)) for text in ("10.0.0.7", "169.254.169.254")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(ConfigError):
        addresses_of("db.example.com", 5432)
