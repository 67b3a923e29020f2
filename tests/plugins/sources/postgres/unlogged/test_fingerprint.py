"""Fingerprints are found again, whichever release stored them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from hypothesis import given
from hypothesis import strategies as st

from replicator_source_postgres.unlogged.fingerprint import FingerprintStore, TableFingerprint

if TYPE_CHECKING:
    from replicator_sdk.context import DeltaSourceContext

OIDS = st.integers(16384, 16384 + 200)
STEPS = st.lists(st.tuples(OIDS, st.sampled_from(["copied", "dropped", "restarted"])), max_size=60)


class _State:
    """The state of a source, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get_state(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put_state(self, key: str, value: bytes) -> None:
        self.values[key] = value


def fingerprint(number: int) -> TableFingerprint:
    return TableFingerprint(f"digest {number}", number, None, {}, {}, {}, {})


def store(state: _State) -> FingerprintStore:
    return FingerprintStore(cast("DeltaSourceContext", state))


def stored_by_an_earlier_release(state: _State, kept: dict[int, TableFingerprint]) -> None:
    for shard in {oid % 64 for oid in kept}:
        part = {str(oid): one.to_json() for oid, one in kept.items() if oid % 64 == shard}
        state.put_state(f"postgres-origins-{shard}", json.dumps(part).encode())


@given(st.sets(OIDS), STEPS)
def test_what_was_stored_last_is_found_also_after_an_upgrade(former: set[int], steps: list[tuple[int, str]]) -> None:
    state, expected = _State(), {oid: fingerprint(oid) for oid in former}
    stored_by_an_earlier_release(state, expected)
    kept = store(state)
    for number, (oid, step) in enumerate(steps):
        if step == "copied":
            expected[oid] = fingerprint(number)
            kept.put(oid, expected[oid])
        elif step == "dropped":
            expected.pop(oid, None)
            kept.forget(oid)
        else:
            kept = store(state)
    for found in (kept, store(state)):
        assert {oid: one for oid in range(16384, 16585) if (one := found.get(oid)) is not None} == expected


def test_documents_are_few_however_many_tables_there_are() -> None:
    state = _State()
    for oid in range(16384, 17384):
        store(state).put(oid, fingerprint(oid))
    assert len(state.values) == 16
