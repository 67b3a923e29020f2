"""The emulators that tests share come back after one ended by itself."""

from __future__ import annotations

import signal

from tests.services.bigquery.emulators import Emulators, rows

_tries: list[int] = []


def test_a_test_is_tried_once_more_when_an_emulator_ended_during_it(bigquery_emulators: Emulators) -> None:
    _tries.append(bigquery_emulators.bigquery_port)
    if len(_tries) == 1:
        bigquery_emulators.end(signal.SIGKILL)
    assert rows(bigquery_emulators, "SELECT 1") == [["1"]]
    assert len(set(_tries)) == 2
