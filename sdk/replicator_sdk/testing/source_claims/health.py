"""Claims about what a source says of itself while a run reads it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import astuple

import pytest

from replicator_sdk.discovery.source_health import SourceHealth
from replicator_sdk.offset import Offset
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.recording import recording
from replicator_sdk.testing.source_system import Application, SourceClaims, SourceSystem

_PLACE = {"namespace": "default", "name": "kit"}


class HealthClaims(SourceClaims):
    """`health`, where a source overrides it."""

    def test_a_source_that_can_be_asked_says_what_waits(self, system: SourceSystem) -> None:
        """Beside a reader `health` says that less waits after a later offset, of which the reader has nothing more to read, than after an earlier one.

        It answers before the first offset, too; a probe says the same, at every call.
        """
        app = Application(system, load_case("seed_transactions"))
        with recording(system.source, app.describe(), None) as reader:
            if system.source.health(None, **_PLACE) is None:
                pytest.skip("the source cannot be asked")
            reader.run()
            app.execute_all(app.history.transactions)
            last = reader.catch_up(self.wait_seconds)[-1].offset
            at_step(f"asked after {last}, then after {reader.start}")
            later, earlier = self._asked(system, last), self._asked(system, reader.start)
            _check(earlier, later)
            probe = system.source.create_health_probe(**_PLACE)
            if probe is None:
                return
            with closing(probe):
                assert probe.ask(None) is not None
                for _ in range(2):
                    after_last, after_start = probe.ask(last), probe.ask(reader.start)
                    assert after_last is not None
                    assert after_start is not None
                    _check(after_start, after_last)
                probe.close()

    @staticmethod
    def _asked(system: SourceSystem, offset: Offset) -> SourceHealth:
        found = system.source.health(offset, **_PLACE)
        assert found is not None, "it could be asked before"
        return found


def _check(earlier: SourceHealth, later: SourceHealth) -> None:
    with comparing("what is said of two offsets, with changes between them"):
        for found in (earlier, later):
            assert all(value >= 0 for value in astuple(found) if isinstance(value, (int, float)))
        for name in ("waiting_bytes", "waiting_changes"):
            after_later, after_earlier = getattr(later, name), getattr(earlier, name)
            if after_later is not None and after_earlier is not None:
                assert after_later <= after_earlier, name
                assert after_earlier > 0, f"{name}: changes wait"
