"""The kit fails plugins that get wrong which column is which after renames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from replicator_sdk import Alter, DDLEvent
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.histories.reference import Change, ReferenceTable
from replicator_sdk.testing.in_memory.source import MemoryReader
from replicator_sdk.testing.in_memory.target import MemoryConsumer
from tests.sdk.testing.in_memory.test_source import MemorySystem as SourceMemory
from tests.sdk.testing.in_memory.test_source import TestMemorySource as SourceKit
from tests.sdk.testing.in_memory.test_target import MemorySystem as TargetMemory
from tests.sdk.testing.in_memory.test_target import TestMemoryTarget as TargetKit

Patch = pytest.MonkeyPatch
Alters = tuple[Alter, ...]


def first_step_alone(alters: Alters) -> Alters:
    """One step of each event."""
    return alters[:1]


def none_for_the_same_names(alters: Alters) -> Alters:
    """No steps when there are the same names before and after: a column is known by its name."""
    before = {alter.previous.name for alter in alters if alter.previous is not None}
    after = {alter.column.name for alter in alters if alter.column is not None}
    return () if before == after else alters


def by_former_name(alters: Alters) -> Alters:
    """The steps in the order of the names before: one may take a name that is not free yet."""
    return tuple(sorted(alters, key=lambda alter: alter.previous.name if alter.previous else ""))


def without_temporary_names(alters: Alters) -> Alters:
    """Each column from its name before to its name after, as if all were renamed at one moment."""
    found: dict[str, Alter] = {}
    for alter in alters:
        assert alter.previous is not None
        assert alter.column is not None
        origin = found.pop(alter.previous.name, alter)
        found[alter.column.name] = replace(alter, previous=origin.previous)
    return tuple(found.values())


def target_with(edit: Callable[[Alters], Alters]) -> Callable[[Patch], None]:
    """A target that applies other steps than those of an event."""
    original = MemoryConsumer.apply_ddl

    def apply_ddl(self: MemoryConsumer, event: DDLEvent) -> None:
        original(self, replace(event, alters=edit(event.alters)))

    return lambda patch: patch.setattr(MemoryConsumer, "apply_ddl", apply_ddl)


def target_that_ignores_case(patch: Patch) -> None:
    """Renames columns in the order of their former names, and replaces one whose name differs in case only."""
    apply_ddl, alter = MemoryConsumer.apply_ddl, ReferenceTable.alter

    def rename(table: ReferenceTable, event: DDLEvent) -> None:
        for step in by_former_name(event.alters):
            assert step.previous is not None
            assert step.column is not None
            for row in table.rows:
                value, new = row.pop(step.previous.name, None), step.column.name
                for name in [name for name in row if name.lower() == new.lower()]:
                    del row[name]
                row[new] = value
        alter(table, replace(event, alters=()))

    def broken(self: MemoryConsumer, event: DDLEvent) -> None:
        with pytest.MonkeyPatch.context() as inside:  # the kit's own reference keeps the right one
            inside.setattr(ReferenceTable, "alter", rename)
            apply_ddl(self, event)

    patch.setattr(MemoryConsumer, "apply_ddl", broken)


def source_with(edit: Callable[[Alters], Alters]) -> Callable[[Patch], None]:
    """A source that emits other steps, and no event without steps."""
    original = MemoryReader._take

    def take(self: MemoryReader, held: Any, table: Any, change: Change, ordinal: int) -> None:
        if isinstance(change, DDLEvent):
            change = replace(change, alters=edit(change.alters))
            if not change.alters:
                return
        original(self, held, table, change, ordinal)

    return lambda patch: patch.setattr(MemoryReader, "_take", take)


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (target_with(first_step_alone), "rename_swap_at_once"),
        (target_with(none_for_the_same_names), "rename_swap_at_once"),
        (target_with(none_for_the_same_names), "rename_cycle_in_transaction"),
        (target_with(by_former_name), "rename_chain_by_case"),
        (target_that_ignores_case, "rename_chain_by_case"),
    ],
    ids=["first step alone", "swap by names", "cycle by names", "order", "case"],
)
@pytest.mark.parametrize("cut", ["all at once", "one by one"])
def test_a_target_that_mixes_up_renamed_columns_fails(
    monkeypatch: Patch, broken: Callable[[Patch], None], name: str, cut: str
) -> None:
    case = load_case(name)
    TargetKit().test_what_is_there_is_what_the_history_makes(TargetMemory(), case, cut)
    broken(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        TargetKit().test_what_is_there_is_what_the_history_makes(TargetMemory(), case, cut)


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (source_with(first_step_alone), "rename_swap_at_once"),
        (source_with(none_for_the_same_names), "rename_swap_at_once"),
        (source_with(none_for_the_same_names), "rename_cycle_in_transaction"),
        (source_with(without_temporary_names), "rename_swap_at_once"),
        (source_with(by_former_name), "rename_chain_by_case"),
    ],
    ids=["first step alone", "swap by names", "cycle by names", "no temporary name", "order"],
)
def test_a_source_that_mixes_up_renamed_columns_fails(
    monkeypatch: Patch, broken: Callable[[Patch], None], name: str
) -> None:
    SourceKit().test_what_the_reader_emits_is_what_happened(SourceMemory(), load_case(name))
    broken(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        SourceKit().test_what_the_reader_emits_is_what_happened(SourceMemory(), load_case(name))
