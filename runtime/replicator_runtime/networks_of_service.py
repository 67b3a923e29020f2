"""Which hosts a pipeline may not name in a process that a service starts, and what their names may lead to there.

Settings are looked at when a service stores them, and again here, when macros have their values. A name is looked at when it is
resolved: who controls it could have it point elsewhere after any check before.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from replicator_sdk.errors import ConfigError
from replicator_sdk.outgoing.networks import METADATA_HOSTS, Networks, check_addresses

_METADATA = "metadata servers are not connected to"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s,'\"]*")
_UNREAD = {ord(sign): None for sign in "\t\r\n"} | {ord("\\"): "/"}
_SLASHES = re.compile(r"\b(https?):/*(?=[^/])", re.IGNORECASE)
_OF_OTHER_PROGRAMS = ("http://", "https://")
"""Addresses that Java and C++ connect to by themselves: their names are looked at once, before."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def refused_hosts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The JSON path of each text in `value` that names a host which may not be reached, and why; none where no service says so.

    The other hosts that it names lead to allowed addresses only, from now on and in this process.

    Args:
        value: A JSON value, macros resolved.
        path: Its JSON path.
    """
    networks = Networks.of_environment()
    if networks is not None:
        for place, text in _texts(value, path):
            if reason := refusal_of(networks, text) or _resolved(networks, text):
                yield place, reason
            else:
                guard(networks, hosts_of(text))


def guard(networks: Networks, hosts: Iterable[str]) -> None:
    """Have these names lead to allowed addresses only, from now on and wherever this process' Python resolves them.

    Whoever resolves another address of them gets a `ConfigError` with RPL-1902.
    """
    _guard.add(networks, hosts)


def refusal_of(networks: Networks, text: str) -> str:
    """Why a setting's value is refused; empty when it is not. Resolves no name."""
    hosts = list(hosts_of(text))
    if any(_named(host) in METADATA_HOSTS for host in hosts):
        return _METADATA
    for host in hosts:
        address = address_of(_named(host))
        if address is None:
            continue
        # A number, such as a port, is an address to the C library. It is one here where it could lead to a metadata server.
        is_meant = _is_written_out(_named(host)) or any(map(_URL.search, _readings(text)))
        if reason := (networks if is_meant else Networks()).refusal(address):
            return reason
    return ""


def hosts_of(text: str) -> Iterator[str]:
    """The hosts that a value may name: a host, hosts with ports, URLs."""
    for read in _readings(text):
        yield from _hosts(read)


def _readings(text: str) -> Iterator[str]:
    """The text, and how libraries in Rust and browsers read it: without ends of lines, with a backslash for a slash, with any number of them."""
    yield text
    read = _SLASHES.sub(r"\1://", text.translate(_UNREAD))
    if read != text:
        yield read


def _hosts(text: str) -> Iterator[str]:
    urls = _URL.findall(text)
    for part in urls or [f"//{part.strip()}" for part in text.split(",")]:
        try:
            found = urlsplit(part).hostname
        except ValueError:
            continue
        if found:
            yield unquote(found)
    if not urls:
        yield from (part.strip() for part in text.split(","))


def address_of(name: str) -> _Address | None:
    """An address, also in the spellings that the C library reads, such as 0xA9FEA9FE and 169.254.43518."""
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        pass
    parts = name.split(".")
    if len(parts) > 4:
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    whole = 0
    for number in numbers[:-1]:
        if number > 255:
            return None
        whole = whole << 8 | number
    left = 5 - len(parts)
    return None if numbers[-1] >= 256**left else ipaddress.IPv4Address(whole << 8 * left | numbers[-1])


def texts_of(value: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every text in a JSON value, with the keys that lead to it."""
    if isinstance(value, str):
        yield (), value
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inner in pairs:
        for keys, text in texts_of(inner):
            yield (key, *keys), text


class _Guard:
    """Has `socket.getaddrinfo` give allowed addresses of some names, or raise RPL-1902; of others what it gives anyway."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._networks = Networks()
        self._names: set[str] = set()
        self._resolve: Callable[..., Any] | None = None

    def add(self, networks: Networks, hosts: Iterable[str]) -> None:
        """Look at these names, too, from now on."""
        with self._lock:
            self._networks = networks
            self._names |= {name for host in hosts if (name := _named(host))}
            if self._resolve is None:
                self._resolve, socket.getaddrinfo = socket.getaddrinfo, self._getaddrinfo

    def _getaddrinfo(self, host: Any, *words: Any, **named: Any) -> Any:
        assert self._resolve is not None
        found = self._resolve(host, *words, **named)
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if isinstance(name, str) and self._has(_named(name)):
            check_addresses(self._networks, {str(entry[4][0]) for entry in found})
        return found

    def _has(self, name: str) -> bool:
        """Whether it is one of the names, or below one of two parts and more: clients of object stores put the bucket before the host."""
        parts = name.split(".")
        return name in self._names or any(".".join(parts[n:]) in self._names for n in range(1, len(parts) - 1))


_guard = _Guard()


def _resolved(networks: Networks, text: str) -> str:
    """Why a URL leads nowhere allowed, by the addresses that its host has now; empty also where it has none."""
    for url in (url for read in _readings(text) for url in _URL.findall(read)):
        if url.lower().startswith(_OF_OTHER_PROGRAMS):
            try:
                found = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_STREAM)
                check_addresses(networks, {str(entry[4][0]) for entry in found})
            except ConfigError as error:
                return error.message
            except (OSError, ValueError):
                continue
    return ""


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    for keys, text in texts_of(value):
        yield path + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys), text


def _named(host: str) -> str:
    name = host.strip("[]").rstrip(".").lower()
    try:
        return name if name.isascii() else name.encode("idna").decode()  # as HTTP clients give it to the resolver
    except UnicodeError:
        return name


def _is_written_out(name: str) -> bool:
    """Whether a text can be nothing but an address, or this machine's name."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return True


def _number(part: str) -> int:
    if not (part.isascii() and part.isalnum()):  # `int` takes signs, spaces and underscores
        raise ValueError
    if part.startswith("0x"):
        return int(part, 16)
    return int(part, 8 if part.startswith("0") and part != "0" else 10)
