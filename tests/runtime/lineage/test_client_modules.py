"""A run imports of OpenLineage's client what it uses; the rest is there for whoever asks for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from openlineage.client.transport import get_default_factory, kafka
from openlineage.client.utils import import_from_string

from replicator_runtime.lineage.client_modules import MODULES, NAMES, factory_of

_POSTPONED = """
import sys
from replicator_runtime.lineage.client_modules import postpone_packages
postpone_packages()
from replicator_runtime.lineage.events import Events
from replicator_runtime.lineage.transport import open_transport
"""


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", _POSTPONED + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("kind", sorted(MODULES))
def test_each_transport_that_is_found_without_the_client_is_the_one_that_the_client_has_or_made_of_it(
    kind: str,
) -> None:
    factory: Any = get_default_factory()
    theirs = kafka.KafkaTransport if kind == "kafka" else factory.transports[kind]
    assert issubclass(import_from_string(MODULES[kind]), theirs)
    assert factory_of(kind) is not factory
    assert factory_of("composite") is factory


def test_the_types_of_transports_are_those_of_the_client() -> None:
    factory: Any = get_default_factory()
    assert factory.transports.keys() == NAMES


def test_events_into_a_file_import_no_client_of_http_and_no_other_transport() -> None:
    unused = [
        "requests",
        "httpx2",
        "httpx",
        "yaml",
        "openlineage.client.client",
        "openlineage.client.transport.async_http",
    ]
    found = _python(
        f"""
open_transport({{"type": "file", "log_file_path": "/dev/null", "append": True}}).emit(Events("n", "p", "r").start())
print(*({{*{unused}}} & sys.modules.keys()), sum(name.startswith("openlineage.client.generated.") for name in sys.modules))
"""
    )
    assert int(found) < 15, "facets that no event has"


def test_whoever_asks_for_another_name_gets_it_and_all_classes_are_the_same() -> None:
    assert (
        _python(
            """
from openlineage.client.event_v2 import RunEvent
from openlineage.client import OpenLineageClient, event_v2
from openlineage.client.transport import get_default_factory
import openlineage.client.transport.http
composite = {"type": "composite", "transports": [{"type": "console"}]}
print(event_v2.RunEvent is RunEvent, type(open_transport(composite)).__name__, "composite" in get_default_factory().transports)
print(hasattr(openlineage.client, "nothing"), OpenLineageClient.__name__)
"""
        )
        == "True CompositeTransport True\nFalse OpenLineageClient"
    )


def test_threads_that_ask_for_a_name_at_once_all_get_it() -> None:
    assert (
        _python(
            """
import openlineage.client, threading
from concurrent.futures import ThreadPoolExecutor
begin = threading.Barrier(8)
def ask(_):
    begin.wait()
    return openlineage.client.OpenLineageClient.__name__
with ThreadPoolExecutor(8) as pool:
    print({*pool.map(ask, range(8))})
"""
        )
        == "{'OpenLineageClient'}"
    )
