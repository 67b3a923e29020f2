"""A slot or publication of the replicator's name is dropped only if its state has created it."""

from __future__ import annotations

from collections.abc import Sequence

from replicator_sdk import Offset, StoredState
from replicator_sdk.testing.contexts import TestSourceContext
from tests.plugins.sources.postgres.faults import publication_of, slot_of
from tests.plugins.sources.postgres.pump import Pump


def stored(context: TestSourceContext, offset: Offset | None) -> StoredState:
    return StoredState(lambda: offset, context.get_state)


def stays(pump: Pump, *states: StoredState) -> Sequence[str]:
    """Why slot and publication stay, in order; what does not stay is removed."""
    context = pump.context
    clean_up = pump.source.create_clean_up(namespace=context.namespace, name=context.replicator_name, stored=states)
    assert clean_up is not None
    found = clean_up.find()
    assert all(item.by_hand for item in found)
    clean_up.remove()
    return [item.stays for item in found]


def test_what_its_state_created_is_removed(pump: Pump) -> None:
    pump.read()
    never_ran = stored(TestSourceContext("pump"), None)  # a generation that was begun by `replicator reset`
    assert stays(pump, never_ran, stored(pump.context, pump.offset)) == ["", ""]
    assert stays(pump, stored(pump.context, pump.offset)) == []


def test_before_the_first_offset_is_saved_the_note_of_its_creation_counts(pump: Pump) -> None:
    pump.read()
    assert stays(pump, stored(pump.context, None)) == ["", ""]


def test_what_a_state_has_that_knew_no_notes_is_removed(pump: Pump) -> None:
    pump.read()
    assert stays(pump, stored(TestSourceContext("pump"), pump.offset)) == ["", ""]


def test_what_another_state_created_stays(pump: Pump) -> None:
    pump.read()
    slot, publication = slot_of(pump), publication_of(pump)
    assert all("has not created it" in why for why in stays(pump, stored(TestSourceContext("pump"), None)))
    assert (slot_of(pump), publication_of(pump)) == (slot, publication)


def test_what_another_state_created_in_the_place_of_ours_stays(pump: Pump) -> None:
    """By hand our slot was dropped, and another replicator of the name has created it again since."""
    pump.read()
    ours = stored(pump.context, pump.offset)
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    pump.database.execute(f"DROP PUBLICATION {publication_of(pump)}")
    other = Pump(pump.database, "t")
    other.read()
    assert all("beyond the saved offset" in why for why in stays(pump, ours))
    pump.database.execute("INSERT INTO t VALUES (1)")
    other.read()
    pump.database.execute(f"SELECT pg_drop_replication_slot('{slot_of(pump)}')")
    [why] = stays(pump, ours)
    assert "created again" in why
    assert stays(other, stored(other.context, other.offset)) == [""]
