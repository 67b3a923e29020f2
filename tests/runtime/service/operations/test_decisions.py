"""What operators decide on is what the command line shows, and a decision that is out of date is refused."""

from __future__ import annotations

import json
from pathlib import Path

from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator, replicator
from tests.runtime.service.operations.ran import PIPELINE, Ran
from tests.runtime.service.services import Service

__all__ = ["replicator"]


def test_a_plan_is_shown_for_the_stored_config_and_for_another_and_approved_by_its_id(shop: Service, ran: Ran) -> None:
    stored = shop.client.get(f"{PIPELINE}/plan").json()
    assert (stored["isFirst"], stored["needsApproval"], stored["steps"], stored["error"]) == (False, False, [], None)
    refused = shop.client.post(f"{PIPELINE}/approvals", json={"plan": "0" * 12})
    assert (refused.status_code, refused.json()["code"]) == (409, "RPL-1263")
    fewer = {**ran.config, "tables": [{"table": "orders"}], "name": "another"}
    other = shop.client.post(f"{PIPELINE}/plan", json={"config": fewer})
    assert other.status_code == 200, other.text
    assert len(other.json()["steps"]) == 3
    assert shop.client.get(f"{PIPELINE}/requests").json() == []


def test_offsets_letters_and_changes_are_those_of_the_command_line(
    shop: Service, replicator: Replicator, tmp_path: Path
) -> None:
    place = ("shop", "--base", tmp_path / "state", "--json")
    [offset] = shop.client.get(f"{PIPELINE}/offsets").json()
    [printed] = json.loads(replicator("offsets", "list", *place).stdout)["data"]
    assert {**offset, "offset": ""} == {**printed, "offset": ""}
    assert shop.client.get(f"{PIPELINE}/deadLetters").json() == []
    assert shop.client.get(f"{PIPELINE}/schemaChanges").json() == []
    unknown = shop.client.post(f"{PIPELINE}/schemaChanges/0123456789/approve")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "RPL-1566")
    assert ReplicatorDirectory(str(tmp_path / "state"), "default", "shop").requests().waiting() == []
