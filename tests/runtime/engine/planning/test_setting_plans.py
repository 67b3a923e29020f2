"""Edited settings of source and target are steps of a plan; those that may stop tables need an approval, and no secret is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.planning.approvals import APPROVE
from replicator_runtime.engine.planning.plan import Plan
from replicator_runtime.engine.planning.planner import stored_plan
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.requests import requests
from tests.runtime.engine.test_run import Shop, shop
from tests.runtime.test_setting_edits import Hosts, edited, logged, set_target

__all__ = ["edited", "shop"]

_SECRET = "a secret of ours"


@pytest.fixture
def asking(edited: Shop) -> Shop:
    """A shop whose first run has ended, and whose later runs ask."""
    del edited.document["edits"]
    return edited


def plan(shop: Shop) -> Plan:
    directory = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop")
    return stored_plan(build_pipeline(shop.document, host=Hosts()), directory)  # type: ignore[arg-type]


def test_a_setting_that_may_stop_tables_is_approved_and_another_is_in_effect_at_once(asking: Shop) -> None:
    set_target(asking, path="there", size=2, password=_SECRET)
    path, size = plan(asking).steps
    assert (path.subject, path.needs_approval, path.code, path.suggestion) == (
        "target.path",
        True,
        "RPL-4101",
        "put it back",
    )
    assert path.change == '`path` of the target was "here" and is "there"'
    assert (size.subject, size.needs_approval) == ("target.size", False)
    for _ in range(2):
        with pytest.raises(SchemaDriftError, match=r"RPL-1260.*target\.path"):
            asking.run()
    requests(asking).record(APPROVE, {"plan": plan(asking).plan_id})
    assert len(logged(asking)) == 2
    assert plan(asking).steps == ()
    set_target(asking, path="there", size=3, password=_SECRET)
    assert not plan(asking).asking
    asking.run()


def test_no_secret_is_in_a_plan(asking: Shop) -> None:
    set_target(asking, path=f"there/{_SECRET}", password=_SECRET)
    [step] = plan(asking).steps
    assert _SECRET not in json.dumps(step.to_json())
    with pytest.raises(SchemaDriftError) as error:
        asking.run()
    assert _SECRET not in str(error.value)
    state = Path(asking.document["offsetBasePath"])
    assert not any(_SECRET.encode() in path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_a_source_of_another_kind_has_no_plan(asking: Shop) -> None:
    asking.document["stages"][0]["plugin"]["name"] = "other"
    with pytest.raises(NeedsUserError, match="RPL-1211"):
        plan(asking)


def test_the_same_database_in_another_place_needs_no_approval(asking: Shop) -> None:
    """A run itself refuses another database (RPL-7140)."""
    moved = asking.path.with_name("moved.db")
    asking.path.rename(moved)
    asking.document["stages"][0]["plugin"]["properties"]["path"] = str(moved)
    [step] = plan(asking).steps
    assert (step.subject, step.needs_approval) == ("source.path", False)
    asking.run()
    assert plan(asking).steps == ()
