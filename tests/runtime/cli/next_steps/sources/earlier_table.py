"""A pipeline of topics whose state was deleted; its target still has a table of which the topic brings records only later."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from replicator_sdk import failpoint
from replicator_sdk.datatype import STRING
from replicator_sdk.schema import Column
from tests.plugins.sources.kafka.harness.source_runs import deletes, inserts, orders

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from typer.testing import Result

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.kafka.broker import KafkaBroker
    from tests.services.kafka.fixtures import MakeTopic

TABLE = orders().table


class EarlierTable:
    """The table `orders` of one topic, and `other` of another one.

    Args:
        shop: Its pipeline is made to read the topics.
        kafka: The broker.
        topic: Makes topics.
        settings: Further settings of the source.
    """

    def __init__(self, shop: OperatorShop, kafka: KafkaBroker, topic: MakeTopic, **settings: Any) -> None:
        self._shop, self._kafka = shop, kafka
        self._topic, self._other = topic(), topic()
        self._schema = orders()
        self._rows: dict[int, str] = {}
        topics = [self._topic, self._other]
        shop.read("kafka", {"bootstrapServers": kafka.bootstrap, "topics": topics, **settings})

    def begin(self, cut_at: str = "") -> None:
        """A run fills the table, or fails at a failpoint each time; then the state is deleted and the records expire."""
        self.write({1: "a", 2: "b"})
        if cut_at:
            failpoint.arm(f"{cut_at}=raise")
            self._shop.document["retries"] = {"maxDurationSeconds": 0}
            self._shop.replicator("run", self._shop.file, "--until-current")
            failpoint.arm("")
        else:
            self._shop.until_current()
        shutil.rmtree(self._shop.base)
        self._kafka.delete_records(self._topic, self._kafka.ends(self._topic))
        self.write_other()
        self._shop.until_current()

    def begin_refused(self, code: str) -> Result:
        """The table is as a run left it that ended after it had created it, and the source's has another column since: two runs are refused.

        Then the connector writes all rows again. Returns the second of these runs.
        """
        self.begin(cut_at="engine.table.before_apply")
        self.add_column("wider")
        rows = {2: "b", 3: "c"}
        self.write(rows)
        self._shop.refused(code, "run", self._shop.file, "--until-current")
        refused = self._shop.refused(code, "run", self._shop.file, "--until-current")
        self.write(rows)
        return refused

    def write_other(self) -> None:
        """The other table has a row more."""
        self._kafka.produce(self._other, inserts([1], orders("other")))

    def write(self, rows: dict[int, str]) -> None:
        """The source has these rows, and its connector writes them all."""
        self._rows = dict(rows)
        self._produce(rows)

    def _produce(self, ids: Iterable[int]) -> None:
        changed = (inserts([number], self._schema, note=self._rows[number]) for number in ids)
        self._kafka.produce(self._topic, [one for record in changed for one in record])

    def add_column(self, name: str) -> None:
        """Records have another column from now on."""
        self._schema = orders("orders", *self._schema.columns[2:], Column(name, STRING))

    def three_runs(self, rows_of: Callable[..., Collection[tuple[Any, ...]]]) -> None:
        """After each, the table has the source's rows; rows and columns change between.

        Args:
            rows_of: The rows of the target's table, given the names of its columns.
        """
        for number in range(3):
            self._shop.until_current()
            names = self._schema.names
            empty = (None,) * (len(names) - 2)
            assert sorted(rows_of(*names)) == sorted((n, note, *empty) for n, note in self._rows.items())
            self.add_column(f"more_{number}")
            gone, kept = min(self._rows), max(self._rows)
            del self._rows[gone]
            self._rows |= {kept: f"changed {number}", kept + 1: "new"}
            self._kafka.produce(self._topic, deletes([gone], self._schema))
            self._produce([kept, kept + 1])
