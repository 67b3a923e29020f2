"""An endpoint that never answers as expected is its table's error within a minute, with the setting to check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials

from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from replicator_target_bigquery.api import clients
from tests.plugins.targets.bigquery.cdc.conftest import streaming as changing
from tests.plugins.targets.bigquery.merge_flush.support.projects import streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.wrong_servers import silent_server, tls_server
from tests.services.bigquery.emulators import Emulators
from tests.services.processes import LOOPBACK

SETTINGS: dict[str, tuple[str, Callable[..., Project]]] = {
    "apiEndpoint": ("api_endpoint", Project),
    "storageEndpoint": ("storage_endpoint", Project),
    "storageWriteEndpoint, merge-flush": ("storage_write_endpoint", streaming),
    "storageWriteEndpoint, default stream": (
        "storage_write_endpoint",
        lambda e, **s: streaming(e, use_default_stream=True, **s),
    ),
    "storageWriteEndpoint, cdc": ("storage_write_endpoint", changing),
}


@pytest.fixture
def wrong(bigquery_emulators: Emulators, tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """The address of a wrong endpoint, by its fault and the setting it is for."""
    plain = {
        "api_endpoint": bigquery_emulators.bigquery_endpoint,
        "storage_endpoint": bigquery_emulators.storage_endpoint,
        "storage_write_endpoint": bigquery_emulators.write_endpoint,
    }
    with ExitStack() as servers:
        silent, tls = servers.enter_context(silent_server()), servers.enter_context(tls_server(tmp_path))

        def address(fault: str, setting: str) -> str:
            secure = "" if setting == "storage_write_endpoint" else "https://"
            return {
                "TLS to a plain port": secure + plain[setting].removeprefix("http://"),
                "plain to a TLS port": f"http://{LOOPBACK}:{tls}",
                "nothing is sent, plain": f"http://{LOOPBACK}:{silent}",
                "nothing is sent, TLS": f"{secure}{LOOPBACK}:{silent}",
            }[fault]

        yield address


@pytest.mark.timeout(240)
def test_every_fault_of_every_endpoint_is_an_error_within_a_minute(
    bigquery_emulators: Emulators, wrong: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, since each takes as long as the replicator waits."""
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    bigquery_emulators.streaming.clear()
    monkeypatch.setattr(clients, "credentials_of", lambda _: AnonymousCredentials())  # type: ignore[no-untyped-call]
    faults = ("TLS to a plain port", "plain to a TLS port", "nothing is sent, plain", "nothing is sent, TLS")
    cases = [(name, fault) for name in SETTINGS for fault in faults]

    def meet(case: tuple[str, str]) -> tuple[str, bool, float]:
        """The error's code, whether its next step names the setting, and how long it took."""
        name, fault = case
        setting, make = SETTINGS[name]
        project = make(bigquery_emulators)
        made = project.consumer()
        made.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
        made.stop()
        settings = {"dataset_name": project.dataset, "retry_seconds": 300, setting: wrong(fault, setting)}
        consumer = make(bigquery_emulators, **settings).consumer(epoch=2)
        began = time.monotonic()
        with pytest.raises(RetryableError) as err:
            consumer.apply_batch(batch(1, [insert(row(1))], epoch=2))
        seconds = time.monotonic() - began
        consumer.stop()
        assert err.value.table == str(KEYED.table)
        return err.value.code, f"`{name.split(',')[0]}`" in err.value.hint, seconds

    with ThreadPoolExecutor(len(cases)) as pool:
        found = dict(zip(cases, pool.map(meet, cases), strict=True))
    assert {case: facts[:2] for case, facts in found.items()} == dict.fromkeys(cases, ("RPL-6538", True))
    assert {case: facts[2] for case, facts in found.items() if facts[2] > 60} == {}
