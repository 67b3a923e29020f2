"""What is done to one table takes turns, and what is done to others does not wait."""

from __future__ import annotations

import threading

from replicator_runtime.engine.maintenance.table_locks import Held, TableLocks
from replicator_sdk import TableId

_ONE, _TWO = TableId("shop", "one"), TableId("shop", "two")


def test_a_table_in_use_is_not_held_and_another_one_is() -> None:
    locks = TableLocks()
    with locks.hold([_ONE]), locks.hold_soon(_ONE, 0.01) as one, locks.hold_soon(_TWO, 0.01) as two:
        assert (one, two) == (False, True)
    with locks.hold_soon(_ONE, 0.01) as one:
        assert one


def test_a_table_whose_rows_are_in_use_is_held_but_for_its_rows() -> None:
    locks = TableLocks()
    with locks.hold([_ONE], Held.ROWS), locks.hold_soon(_ONE, 0.01, Held.STRUCTURE) as structure:
        assert structure
        with locks.hold_soon(_ONE, 0.01) as whole:
            assert not whole
    with locks.hold_soon(_ONE, 0.01) as whole:
        assert whole


def test_two_that_want_the_same_tables_in_another_order_do_not_wait_for_each_other() -> None:
    locks, rounds = TableLocks(), 300

    def work(tables: list[TableId]) -> None:
        for _ in range(rounds):
            with locks.hold(tables):
                pass

    threads = [threading.Thread(target=work, args=(tables,), daemon=True) for tables in ([_ONE, _TWO], [_TWO, _ONE])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
