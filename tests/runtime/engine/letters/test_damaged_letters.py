"""A damaged file of rows put aside keeps no one from having its table copied again, nor from seeing the others."""

from __future__ import annotations

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.rewind.plan import _refuse_letters
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_sdk.errors import SnapshotNeededError
from tests.follows import follows
from tests.runtime.engine.letters.test_renamed_letters import aside, refusing, replay
from tests.runtime.engine.test_run import Host, Shop, shop

__all__ = ["refusing", "shop"]


@follows("RPL-4140")
@pytest.mark.parametrize("named", [True, False])
def test_a_table_with_a_damaged_file_is_copied_again_by_a_replay(refusing: Shop, named: bool) -> None:
    [first] = refusing.path.parent.glob("state/default/shop/*/dead-letters/*")
    refusing.sql("CREATE TABLE parts (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO parts VALUES (1, 'S')")
    refusing.run()
    first.write_bytes(first.read_bytes()[:40])
    assert aside(refusing) == {"parts": 1}
    with open_run(build_pipeline(refusing.document, host=Host())) as opened:  # type: ignore[arg-type]
        opened.table_store.load()
        [record] = [record for record in opened.table_store.records.values() if record.table.table == "items"]
        with pytest.raises(SnapshotNeededError, match=r"RPL-4140.*dead-letters replay"):
            _refuse_letters(opened, record)
    done = replay(refusing, *(["items"] if named else []))
    assert done.state == "done"
    assert (
        "main.items will be copied again by the next run that finds it at the source, with a damaged file"
        in done.lines[0]
    )
    refusing.run()
    assert aside(refusing) == {"items": 1, "parts": 1}
    refusing.sql("UPDATE items SET size = 2", "UPDATE parts SET size = 2")
    refusing.run()
    refusing.assert_equal("items", "parts")
    assert aside(refusing) == {}
