"""Which databases the target follows: those that are selected, not on a `ddlBlacklist`, and dropped with all their tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator_runtime.config import PipelineConfig, Selection
from replicator_runtime.engine.stream.databases import Databases
from replicator_sdk import DDLEvent, DDLOperation, Position, TableId
from replicator_sdk.errors import FencedError, NeedsUserError, RetryableError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from tests.runtime.config.conftest import pipeline

CREATE, DROP = DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE
ALL: dict[str, Any] = {"ddlBlacklist": []}


class Target:
    """Takes events, or fails."""

    def __init__(self, *, follows: bool = True, error: Exception | None = None) -> None:
        self.follows_databases = follows
        self.error = error
        self.events: list[DDLEvent] = []

    def apply_ddl(self, event: DDLEvent) -> None:
        if self.error is not None:
            raise self.error
        self.events.append(event)


def taken(operation: DDLOperation, target: Target, *known: str, **settings: Any) -> list[DDLOperation]:
    """What the target gets of one event of the database `shop`, while the tables `known` are replicated."""
    tables = [TableId(*name.split(".")) for name in known]
    counted: list[str] = []
    run = SimpleNamespace(
        pipeline=SimpleNamespace(selection=Selection(PipelineConfig.model_validate(pipeline(**settings)))),
        metrics=SimpleNamespace(count=counted.append),
    )
    lifecycle: Any = SimpleNamespace(run=run, records={t: SimpleNamespace(table=t) for t in tables})
    active: Any = SimpleNamespace(batcher=SimpleNamespace(offset=MemoryOffset(3)))
    applier: Any = target
    Databases(lifecycle, applier, active).take(DDLEvent(MemoryOffset(3), operation, TableId("shop", ""), ordinal=2))
    assert [event.position for event in target.events] == [Position(MemoryOffset(3), 3)] * len(target.events)
    assert len(counted) == len(target.events)
    return [event.operation for event in target.events]


@pytest.mark.parametrize("operation", [CREATE, DROP])
@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (ALL, True),
        ({**ALL, "tables": [{"database": "shop", "table": "orders"}]}, True),
        ({**ALL, "tables": [{"database": "sh*", "table": "*"}]}, True),
        ({**ALL, "tables": [{"database": "other", "table": "*"}]}, False),
        ({"ddlBlacklist": ["CREATE_DATABASE", "DROP_DATABASE"]}, False),
        ({**ALL, "tables": [{"table": "*", "ddlBlacklist": ["CREATE_DATABASE", "DROP_DATABASE"]}]}, False),
        (
            {
                **ALL,
                "tables": [
                    {"database": "other", "table": "*", "ddlBlacklist": ["CREATE_DATABASE", "DROP_DATABASE"]},
                    {"database": "shop", "table": "*"},
                ],
            },
            True,
        ),
    ],
)
def test_selection_and_blacklist_decide(operation: DDLOperation, settings: dict[str, Any], wanted: bool) -> None:
    assert taken(operation, Target(), **settings) == [operation] * wanted


def test_by_default_databases_are_created_and_not_dropped() -> None:
    assert taken(CREATE, Target()) == [CREATE]
    assert taken(DROP, Target()) == []


def test_a_target_that_does_not_follow_databases_gets_none() -> None:
    assert taken(CREATE, Target(follows=False), **ALL) == []


def test_a_database_with_tables_is_not_dropped() -> None:
    """They came after the drop, which is replayed, or they are late and will be dropped by a replay, as the database then is."""
    assert taken(DROP, Target(), "shop.orders", **ALL) == []
    assert taken(DROP, Target(), "other.orders", **ALL) == [DROP]
    assert taken(CREATE, Target(), "shop.orders", **ALL) == [CREATE]


def test_a_target_that_refuses_stops_nothing() -> None:
    refused = NeedsUserError("no right to create datasets", code="RPL-6513", hint="grant it")
    assert taken(CREATE, Target(error=refused), **ALL) == []


@pytest.mark.parametrize("kind", [RetryableError, FencedError])
def test_other_errors_are_those_of_the_run(kind: Any) -> None:
    with pytest.raises(kind):
        taken(CREATE, Target(error=kind("away", code="RPL-6511", hint="wait")), **ALL)
