"""What a pipeline's settings may have the service reach."""

from __future__ import annotations

import dataclasses
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.service.access.reach import check_reach
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.settings import ServiceSettings
from tests.runtime.service.services import settings_in


def _refused(settings: ServiceSettings, **properties: Any) -> list[str]:
    found: ProblemError | None = None
    try:
        check_reach(settings, {"stages": [{"plugin": {"properties": properties}}]})
    except ProblemError as error:
        found = error
    if found is None:
        return []
    assert (found.status, found.code) == (422, "RPL-1556")
    return [wrong.pointer.rpartition("/")[2] for wrong in found.errors]


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.0.1",
        "2852039166",
        "0xA9FEA9FE",
        "0251.0376.0251.0376",
        "169.254.43518",
        "::ffff:169.254.169.254",
        "[fe80::1]",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "METADATA.google.internal.",
    ],
)
def test_metadata_servers_are_not_reached(host: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert _refused(settings, host=host) == ["host"]
    if "%" not in host and (":" not in host or host.startswith("[")):
        assert _refused(settings, url=f"http://user@{host}:80/latest") == ["url"]
        assert _refused(settings, bootstrapServers=f"kafka:9092,{host}:9092") == ["bootstrapServers"]


@pytest.mark.parametrize(
    "host",
    ["db.internal", "10.0.0.7", "127.0.0.1", "::1", "192.168.1.1", "169.253.1.1", "08.1", "", "-1", "1_0.2", "+1", "٣"],
)
def test_databases_are_reached(host: str, tmp_path: Path) -> None:
    assert _refused(settings_in(tmp_path), host=host, port="5432", table="public.orders") == []


def test_the_services_own_files_are_not_reached(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.work_folder.mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "service.db")
    database = str(tmp_path / "service.db")
    for path in (
        database,
        f"file://{database}",
        f"{tmp_path}/x/../service.db",
        str(tmp_path / "link"),
        f"{database}-wal",
    ):
        assert _refused(settings, path=path) == ["path"], path
    assert _refused(settings, path=str(settings.work_folder / "pipelines" / "a.json")) == ["path"]
    assert _refused(settings, path=str(tmp_path / "shop.db"), other="s3://bucket/service.db") == []


def test_files_are_below_the_allowed_folders(tmp_path: Path) -> None:
    settings = dataclasses.replace(settings_in(tmp_path), local_paths=(tmp_path / "data",))
    assert _refused(settings, path=str(tmp_path / "data" / "shop.db")) == []
    assert _refused(settings, path=str(tmp_path / "data" / ".." / "shop.db")) == ["path"]
    assert _refused(settings, path="/etc/passwd") == ["path"]


@pytest.mark.parametrize(
    ("where", "reached"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"allowed_hosts": ("localhost",)}, True),
        ({"host": "0.0.0.0"}, False),
        ({"allowed_hosts": ("192.0.2.1",)}, False),
        ({"host": "0.0.0.0", "allowed_networks": (ip_network("127.0.0.0/8"),)}, True),
        ({"allowed_networks": (ip_network("10.0.0.0/8"),)}, False),
    ],
)
def test_the_own_machine_is_reached_from_a_service_for_its_users_alone(
    where: dict[str, Any], reached: bool, tmp_path: Path
) -> None:
    settings = dataclasses.replace(settings_in(tmp_path), **where)
    for text in ("127.0.0.1", "localhost", "http://localhost:8080/x", "127.0.0.1:9092"):
        assert _refused(settings, host=text) == ([] if reached else ["host"]), text
    assert _refused(settings, port="5432", table="public.orders") == []
