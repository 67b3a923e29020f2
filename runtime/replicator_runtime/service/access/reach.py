"""What a pipeline's settings may have this machine reach: any database, but no metadata server, and not our own files.

Why: docs/decisions/0071-who-may-have-the-service-connect.md
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from replicator_runtime.service.problems import FieldProblem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from replicator_runtime.service.settings import ServiceSettings

BEYOND_REACH = "RPL-1556"
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"})
_METADATA_ADDRESSES = frozenset({ipaddress.ip_address("fd00:ec2::254"), ipaddress.ip_address("100.100.100.200")})
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")


def check_reach(settings: ServiceSettings, config: Mapping[str, Any]) -> None:
    """Do nothing when each setting names what a pipeline may reach.

    A setting is looked at by its value, so that those of plugins unknown here are, too. Names are not resolved.

    Raises:
        ProblemError: 422 RPL-1556 with the place of each that may not be.
    """
    errors = [
        FieldProblem(pointer=pointer, message=reason)
        for pointer, text in _texts(config, "")
        if (reason := _refused(settings, text))
    ]
    if errors:
        raise ProblemError(
            422,
            BEYOND_REACH,
            "the settings name what a pipeline may not reach from this service",
            hint="name a database's own address, and files outside of the service's folder",
            errors=errors,
        )


def is_metadata(host: str) -> bool:
    """Whether a host is link-local, where clouds have their metadata servers, in any spelling of its address."""
    name = host.strip("[]").rstrip(".").lower()
    if name in _METADATA_NAMES:
        return True
    address = _address(name)
    if address is None:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_link_local or address in _METADATA_ADDRESSES


def _refused(settings: ServiceSettings, text: str) -> str:
    """Why a value is refused; empty when it is not."""
    if any(is_metadata(host) for host in _hosts(text)):
        return "link-local addresses, where clouds have their metadata servers, are not connected to"
    path = _local_path(text)
    if path is None:
        return ""
    if any(_is_below(path, own) for own in own_files(settings)):
        return "this is a file of the service itself"
    if settings.local_paths is not None and not any(_is_below(path, root) for root in settings.local_paths):
        return "files of this machine are allowed below some folders only"
    return ""


def _hosts(text: str) -> Iterator[str]:
    """The hosts that a value may name: a host, hosts with ports, a URL."""
    for part in text.split(","):
        try:
            found = urlsplit(part.strip() if _SCHEME.match(part.strip()) else f"//{part.strip()}").hostname
        except ValueError:
            continue
        if found:
            yield unquote(found)
        yield part.strip()


def _local_path(text: str) -> Path | None:
    """The file of this machine that a value names, links followed; None when it names none."""
    found = _SCHEME.match(text)
    if found and found["scheme"].lower() not in {"file", "local"}:
        return None
    named = text[found.end() :] if found else text
    return Path(named).resolve() if named.startswith("/") and "\0" not in named else None


def own_files(settings: ServiceSettings) -> Iterator[Path]:
    """The files and folders of the service itself, links followed."""
    yield settings.work_folder.resolve()
    if settings.store.startswith("sqlite:///"):
        database = Path(settings.store.removeprefix("sqlite:///").partition("?")[0]).resolve()
        yield database
        yield from (Path(f"{database}-{of}") for of in ("wal", "shm", "journal"))


def _is_below(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder.resolve())


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also in the spellings that the C library reads, such as 0xA9FEA9FE and 169.254.43518."""
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


def _number(part: str) -> int:
    if not (part.isascii() and part.isalnum()):  # `int` takes signs, spaces and underscores
        raise ValueError
    if part.startswith("0x"):
        return int(part, 16)
    return int(part, 8 if part.startswith("0") and part != "0" else 10)


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Every text in a document, with its place."""
    if isinstance(value, str):
        yield pointer, value
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield from _texts(inner, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
