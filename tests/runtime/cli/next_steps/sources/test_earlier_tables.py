"""What errors of a table that the target has before its source creates it advise is done as it is printed."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from replicator_target_delta.location import table_path
from tests.end_to_end.comparison import table_rows
from tests.follows import follows
from tests.runtime.cli.next_steps.sources.earlier_table import TABLE, EarlierTable
from tests.waits import until

if TYPE_CHECKING:
    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.kafka.broker import KafkaBroker
    from tests.services.kafka.fixtures import MakeTopic

BOTH = pytest.mark.parametrize("distributed", [True, False])


def rows_in(shop: OperatorShop) -> Any:
    def rows_of(*names: str) -> list[tuple[Any, ...]]:
        return list(table_rows(DeltaTable(table_path(str(shop.lake), TABLE)), names))

    return rows_of


@follows("RPL-4105")
@BOTH
@pytest.mark.parametrize("during_run", [True, False])
def test_a_table_of_a_deleted_state_that_the_log_brings_later_is_not_gone_on_with(
    lake_shop: OperatorShop, kafka: KafkaBroker, kafka_topic: MakeTopic, *, distributed: bool, during_run: bool
) -> None:
    """The row that was deleted while no run read the log would stay."""
    shop = lake_shop
    earlier = EarlierTable(shop, kafka, kafka_topic, distributed=distributed)
    earlier.begin()
    if during_run:
        meet_during_run(shop, earlier)
    else:
        earlier.write({2: "b", 3: "c"})
    stopped = shop.refused("RPL-4105", "run", shop.file, "--until-current")
    assert sorted(rows_in(shop)("id")) == [(1,), (2,)]
    shop.follow(stopped, "RPL-4105", "reset", "--lost-state")
    earlier.three_runs(rows_in(shop))


def meet_during_run(shop: OperatorShop, earlier: EarlierTable) -> None:
    """The table's first record comes while a run streams, which goes on with the other table, or ends."""
    stop, ended = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            shop.run(until_current=False, stop=stop)
        except Exception as error:  # noqa: BLE001 - of a table that stopped
            ended.append(error)

    running = threading.Thread(target=run)
    running.start()
    until(lambda: "streaming" in shop.replicator("status", shop.file).output)
    earlier.write({2: "b", 3: "c"})
    until(lambda: "RPL-4105: " in shop.replicator("status", shop.file).output or bool(ended))
    stop.set()
    running.join(120)


@follows("RPL-6402")
@pytest.mark.parametrize("way", ["move", "reset"])
def test_a_table_that_delta_has_before_its_source_creates_it_is_moved_away_or_emptied(
    lake_shop: OperatorShop, kafka: KafkaBroker, kafka_topic: MakeTopic, way: str
) -> None:
    """A run that ended after it had created the table; its state is deleted, and the source's table has another column since."""
    shop = lake_shop
    earlier = EarlierTable(shop, kafka, kafka_topic, distributed=False)
    stopped = earlier.begin_refused("RPL-6402")
    if way == "move":
        place = table_path(str(shop.lake), TABLE)
        shutil.move(place, f"{place}-away")
    else:
        shop.follow(stopped, "RPL-6402", "reset")
    earlier.three_runs(rows_in(shop))
