"""Which addresses a pipeline of a service may connect to; everywhere else all of them.

A name is looked at by the addresses that it has at the moment of the connection. A plugin whose driver resolves names by itself gives it
`addresses_of` instead of the name; one whose driver asks Python's `socket` needs nothing.

Why: docs/decisions/0099-addresses-are-looked-at-where-they-are-connected-to.md
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from replicator_sdk.errors import ConfigError

NETWORKS = "REPLICATOR_SERVICE_NETWORKS"
"""The environment variable in which a service says so: JSON, `{"allowed": [NETWORK…] or null, "loopback": BOOL}`."""
METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"})
"""Names of the metadata servers of clouds, which answer with the credentials of the machine."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")))
_NAT64, _COMPATIBLE = ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96")
_THIS_HOST = ipaddress.IPv4Network("0.0.0.0/8")


@dataclass(frozen=True, slots=True)
class Networks:
    """The addresses that pipelines of a service may connect to.

    Attributes:
        allowed: The only networks with such addresses; None: all but those that are refused anyway.
        loopback: Whether those of this machine itself are among them, where `allowed` is None.
    """

    allowed: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] | None = None
    loopback: bool = True

    @classmethod
    def of_environment(cls) -> Networks | None:
        """Those that the service has said; None in a process that no service has started."""
        said = os.environ.get(NETWORKS)
        if not said:
            return None
        found = json.loads(said)
        allowed = found["allowed"]
        return cls(None if allowed is None else tuple(map(ipaddress.ip_network, allowed)), bool(found["loopback"]))

    def text(self) -> str:
        """The value of `NETWORKS`."""
        allowed = None if self.allowed is None else [str(network) for network in self.allowed]
        return json.dumps({"allowed": allowed, "loopback": self.loopback})

    def refusal(self, address: _Address) -> str:
        """Why an address is not connected to; empty where it may be."""
        address = _inner(address)
        if address.is_link_local or address in _METADATA:
            return "link-local addresses, where clouds have their metadata servers, are not connected to"
        if self.allowed is not None:
            inside = any(address in network for network in self.allowed if network.version == address.version)
            return "" if inside else "addresses of some networks only are connected to"
        if not self.loopback and is_own(address):
            return "addresses of the service's own machine are not connected to"
        return ""


def is_own(address: _Address) -> bool:
    """Whether an address is one of the machine itself, whichever machine that is."""
    address = _inner(address)
    return address.is_loopback or address.is_unspecified or (address.version == 4 and address in _THIS_HOST)


def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a host that a pipeline names, each of which may be connected to; none where no service says what may be.

    Connect to these and to no others: the next time the name may have others.

    Raises:
        ConfigError: RPL-1902 when one of them may not be.
        OSError: When the name has none.
    """
    networks = Networks.of_environment()
    if networks is None:
        return []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    check_addresses(networks, addresses)
    return addresses


def check_addresses(networks: Networks, addresses: Iterable[str]) -> None:
    """Do nothing when each address may be connected to.

    Raises:
        ConfigError: RPL-1902 when one may not be. It does not say which: a name's addresses are no business of who may not use them.
    """
    for text in addresses:
        if reason := networks.refusal(ipaddress.ip_address(text.partition("%")[0])):
            raise ConfigError(
                f"a host that the settings name is beyond reach: {reason}",
                code="RPL-1902",
                hint="name a host whose addresses the service allows (docs/service.md, What pipelines reach)",
            )


def _inner(address: _Address) -> _Address:
    """The IPv4 address that is inside an IPv6 address, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address
