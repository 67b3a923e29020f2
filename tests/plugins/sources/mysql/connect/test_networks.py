"""Where a service says which addresses are allowed, a connection is made to those that were looked at, in every process."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from replicator_sdk.errors import ConfigError, RetryableError
from replicator_sdk.outgoing.networks import NETWORKS, Networks
from replicator_source_mysql import MySqlConfig, MySqlSource
from replicator_source_mysql.connect.connection import Endpoint, execute
from tests.plugins.sources.mysql.pump import source_of
from tests.services.mysql.server import MysqlDatabase


def test_a_name_that_leads_elsewhere_right_after_the_look_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    really = socket.getaddrinfo
    answers = iter(["127.0.0.2", "127.0.0.1", "127.0.0.1"])

    def resolve(host: Any, *words: Any, **named: Any) -> Any:
        return really(next(answers) if host == "db.example.com" else host, *words, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv(NETWORKS, Networks((ipaddress.ip_network("127.0.0.2/32"),)).text())
    with socket.create_server(("127.0.0.1", 0)) as refused:
        settings = {"host": "db.example.com", "port": refused.getsockname()[1], "user": "reader"}
        source = MySqlSource(MySqlConfig.model_validate({**settings, "connect_timeout_seconds": 2}))
        with pytest.raises(RetryableError, match="RPL-3804"):
            source.latest_offset()
        refused.settimeout(0)
        with pytest.raises(BlockingIOError):
            refused.accept()


def test_an_allowed_server_is_connected_to(mysql_database: MysqlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint(source_of(mysql_database).config)
    monkeypatch.setenv(NETWORKS, Networks().text())
    with endpoint.session() as session:
        assert execute(session, "SELECT 1") == [(1,)]
    monkeypatch.setenv(NETWORKS, Networks(loopback=False).text())
    with pytest.raises(ConfigError, match="RPL-1902"):
        endpoint.connect()
