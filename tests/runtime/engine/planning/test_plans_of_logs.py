"""Plans of a pipeline whose source takes no snapshots: what is left out cannot be copied later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.planning.approvals import APPROVE
from replicator_runtime.engine.planning.plan import StepKind
from replicator_runtime.engine.planning.planner import stored_plan
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.partitioned_shop import Host
from tests.runtime.engine.slices.test_distributed_stream import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from replicator_runtime.engine.planning.plan import Plan

CUSTOMERS, STOCK, NOTES = ({"table": name} for name in ("customers", "stock", "notes"))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    yield Pair(tmp_path, 1)
    MemoryStore.forget(str(tmp_path))


def select(pair: Pair, *entries: dict[str, Any]) -> None:
    pair.settings = {"tables": list(entries), "edits": "ask"}


def directory(pair: Pair) -> ReplicatorDirectory:
    return ReplicatorDirectory(str(pair.shop.folder / "state"), "default", "shop")


def plan(pair: Pair) -> Plan:
    document = pair.shop.document("memory", {"store": pair.store}, **pair.settings)
    return stored_plan(build_pipeline(document, host=Host(MemoryTarget)), directory(pair))  # type: ignore[arg-type]


def test_a_table_leaves_after_an_approval_and_its_way_back_says_what_it_may_meet(pair: Pair) -> None:
    select(pair, CUSTOMERS, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    assert plan(pair).steps == ()
    select(pair, STOCK, NOTES)
    [out] = plan(pair).steps
    assert (out.kind, out.needs_approval) == (StepKind.TABLE_OUT, True)
    with pytest.raises(SchemaDriftError, match="RPL-1260"):
        pair.run()
    directory(pair).requests().record(APPROVE, {"plan": plan(pair).plan_id})
    pair.run()
    assert plan(pair).steps == ()
    select(pair, CUSTOMERS, STOCK, NOTES)
    [back] = plan(pair).steps
    assert (back.kind, back.needs_approval, back.code) == (StepKind.TABLE_IN, False, "")
    select(pair, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    select(pair, CUSTOMERS, STOCK, NOTES)
    [back] = plan(pair).steps
    assert (back.kind, back.needs_approval, back.code) == (StepKind.TABLE_IN, False, "RPL-2005")


def test_other_columns_are_refused(pair: Pair) -> None:
    select(pair, CUSTOMERS, STOCK, NOTES)
    pair.shop.trade(20)
    pair.run()
    select(pair, {**CUSTOMERS, "columns": ["name"]}, STOCK, NOTES)
    [step] = plan(pair).steps
    assert (step.kind, step.refused, step.code) == (StepKind.COLUMNS, True, "RPL-2007")


def test_a_table_is_one_of_a_log_also_when_all_have_failed(pair: Pair) -> None:
    select(pair, CUSTOMERS)
    pair.shop.trade(20)
    pair.run()
    select(pair, {**CUSTOMERS, "columns": ["name"]})
    with pytest.raises(NeedsUserError, match="RPL-2007"):
        pair.run()
    [step] = plan(pair).steps
    assert (step.refused, step.code) == (True, "RPL-2007")
    select(pair, STOCK)
    out = plan(pair).steps[0]
    assert (out.kind, out.needs_approval) == (StepKind.TABLE_OUT, True)
    with pytest.raises(SchemaDriftError, match="RPL-1260"):
        pair.run()
