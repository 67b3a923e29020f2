"""What errors about plans advise is done as it is printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.follows import follows
from tests.runtime.engine.test_run import fill

if TYPE_CHECKING:
    from typer.testing import Result

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop


@pytest.fixture
def edited(shop: OperatorShop) -> OperatorShop:
    """It has run, and is not to replicate its notes any more."""
    del shop.document["edits"]
    fill(shop)
    shop.until_current()
    shop.document["tables"] = [{"table": "customers"}]
    return shop


def plan_id(shown: Result) -> str:
    found = re.search(r"plan ([0-9a-f]{12}): 1 step, 1 to approve", shown.stdout)
    assert found
    return found[1]


def assert_edited(shop: OperatorShop, table: str) -> None:
    shop.until_current()
    assert "nothing was edited" in shop.done("plan", shop.file).stderr
    shop.assert_equal(table)


@follows("RPL-1262", "RPL-1263")
@pytest.mark.parametrize(("given", "code"), [("latest", "RPL-1262"), ("0" * 12, "RPL-1263")])
def test_the_plan_that_is_shown_can_be_approved(edited: OperatorShop, given: str, code: str) -> None:
    refused = edited.refused(code, "approve", edited.file, given)
    shown = edited.follow(refused, code, "plan", status=6)
    edited.done("approve", edited.file, plan_id(shown))
    assert_edited(edited, "customers")


@follows("RPL-1261")
def test_after_another_edit_the_new_plan_is_looked_at_and_approved(edited: OperatorShop) -> None:
    edited.done("approve", edited.file, plan_id(edited.done("plan", edited.file, status=6)))
    edited.document["tables"] = [{"table": "notes"}]
    refused = edited.refused("RPL-1261", "run", edited.file, "--until-current")
    new = plan_id(edited.follow(refused, "RPL-1261", "plan", status=6))
    assert new in edited.follow(refused, "RPL-1261", "approve").stdout
    assert_edited(edited, "notes")
