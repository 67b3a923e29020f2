"""A hint names what was meant, in the form in which it is written."""

from __future__ import annotations

import pytest

from replicator_runtime.spelling import near_name
from replicator_sdk import TableId

_TABLES = [TableId("main", "item"), TableId("shop", "order", "public")]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("items", "did you mean item? "),
        ("main.item", 'did you mean {"database": "main", "table": "item"}? '),
        ("public.orders", "did you mean public.order? "),
        ("nothing", ""),
    ],
)
def test_a_table_that_is_not_there_is_answered_with_the_one_that_was_meant(name: str, hint: str) -> None:
    """A name that reads the same has its parts in other places: SQLite's `main` is a database, and no schema."""
    assert near_name(name, _TABLES) == hint
