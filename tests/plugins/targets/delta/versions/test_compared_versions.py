"""The mode `scd2`: later copies and repairs among changes and compactions have the versions of a model in plain Python, without Spark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.testing.histories.reference import RowChange
from tests.plugins.targets.changes import KEYED, delete, insert, row, update
from tests.plugins.targets.delta.folder_table import FolderTable
from tests.plugins.targets.version_model import VersionsModel, assert_in_order, counted, timed

_KEYS = range(5)
_NAMES = st.sampled_from(["a", "b", None])
_ROWS = st.dictionaries(st.sampled_from(_KEYS), _NAMES, max_size=5)
_STEP: st.SearchStrategy[tuple[str, dict[int, str | None]]] = st.one_of(
    st.tuples(st.just("apply"), _ROWS),
    st.tuples(st.just("copy"), _ROWS),
    st.tuples(st.just("repair"), _ROWS),
    st.tuples(st.just("compact"), st.just({})),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(_STEP, max_size=9), st.integers(1, 3))
def test_copies_and_repairs_have_the_versions_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, dict[int, str | None]]], files: int
) -> None:
    """A step writes the rows that it names; a copy, and a repair of the first three keys, ends the others."""
    model = VersionsModel()
    table = FolderTable(tmp_path_factory.mktemp("compared"), KEYED, mode="scd2", metadataColumns=[])
    for number, (what, named) in enumerate(steps, 1):
        rows, time = {key: row(key, name) for key, name in named.items()}, 100 * number
        if what == "apply":
            _apply(table, model, number, rows)
        elif what == "copy":
            table.copy_again(
                [[rows[key] for key in rows if key % files == part] for part in range(files)], time, time + 9
            )
            model.compare(rows, _KEYS, table.highest, time, time + 9)
        elif what == "repair":
            chosen = {key: one for key, one in rows.items() if key < 3}
            gone = [delete({"id": key}) for key in range(3) if key not in chosen]
            table.repair(timed(number, [*gone, *map(insert, chosen.values())], *[-1] * 3, overlap=True), time)
            model.compare(chosen, range(3), table.highest, time, time)
        else:
            table.compact(1 << 20, 4)
        found = table.rows()
        assert_in_order(found)
        assert counted(found) == counted([version.columns() for version in model.versions])


def _apply(table: FolderTable, model: VersionsModel, number: int, rows: dict[int, dict[str, Any]]) -> None:
    """Writes the rows, and takes the first key away where none is written for it."""
    changes: list[RowChange] = [update(one) if key in model.current else insert(one) for key, one in rows.items()]
    if 0 in model.current and 0 not in rows:
        changes.append(delete({"id": 0}))
    if not changes:
        return
    time, added = 100 * number, max(0, table.highest + 1 - (1000 * number + 1))
    table.apply(timed(number, changes, *[time] * len(changes)))
    model.apply([(change, 1000 * number + place + added, time) for place, change in enumerate(changes, 1)])
