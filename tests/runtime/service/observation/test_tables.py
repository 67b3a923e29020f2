"""Tables are found, sorted and paged, ten thousand of them and whatever they are called."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_runtime.service.observation.tables import TableSort, chosen, cursor
from replicator_runtime.service.problems import ProblemError


def row(number: int, state: str = "REPLICATING", lag: float | None = None) -> dict[str, Any]:
    name = f"shop.t{number:05}"
    return {
        "id": f'"shop"."t{number:05}"',
        "name": name,
        "database": "db",
        "table": f"t{number:05}",
        "state": state,
        "lagSeconds": lag,
    }


@pytest.mark.parametrize("sort", list(TableSort))
def test_pages_have_every_table_once_in_any_order(sort: TableSort) -> None:
    rows = [row(n, "FAILING" if n % 7 == 0 else "REPLICATING", n % 5 or None) for n in range(2000)]
    found: list[Any] = []
    after = None
    while True:
        part = chosen(rows, "", "", sort, after, 300)
        found += part[:300]
        if len(part) <= 300:
            break
        after = cursor(part[299], sort)
    assert sorted(one["id"] for one in found) == [one["id"] for one in rows]
    if sort is TableSort.URGENCY:
        assert {one["state"] for one in found[:286]} == {"FAILING"}
    if sort is TableSort.LAG:
        assert [one["lagSeconds"] or 0 for one in found] == sorted(
            (one["lagSeconds"] or 0 for one in rows), reverse=True
        )


def test_a_table_is_found_by_a_part_of_its_name_and_by_its_state() -> None:
    strange = {**row(1), "id": '"<img onerror=x>"', "name": "shop.<img onerror=x>"}
    rows = [strange, row(2, "FAILING"), row(3)]
    assert chosen(rows, "<IMG", "", TableSort.NAME, None, 10) == [strange]
    assert chosen(rows, "", "FAILING", TableSort.NAME, None, 10) == [rows[1]]
    assert chosen(rows, "db.shop.t00003", "", TableSort.NAME, None, 10) == [rows[2]]


@pytest.mark.parametrize("after", ["", "x", "W10=", "WyJsYWciLCAxXQ==", "WyJuYW1lIiwgMSwgMl0=", "é"])
def test_a_cursor_of_another_list_is_refused(after: str) -> None:
    with pytest.raises(ProblemError):
        chosen([row(1)], "", "", TableSort.NAME, after, 10)
