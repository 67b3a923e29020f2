"""Tables whose changes are written to Kafka as Debezium writes them, without a database: what they hold is known here."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tests.services.kafka.broker import Content, KafkaBroker
from tests.services.threads import repeating

Row: TypeAlias = tuple[Any, ...]
_STRUCT: Mapping[str, Any] = {"type": "struct", "optional": True}
_REQUIRED = {"id", "size"}
_SOURCE = ("version", "connector", "name", "snapshot", "db", "schema", "table")


class KafkaTables:
    """A table `item` with a key in three partitions and a table `note` without one, in which a change applied twice shows.

    Attributes:
        topics: A regular expression for their topics.
    """

    def __init__(self, broker: KafkaBroker) -> None:
        """Makes the topics, with some rows as a connector's snapshot has them."""
        self._broker, self._prefix = broker, f"tables{uuid.uuid4().hex[:10]}"
        self.topics = f"{self._prefix}\\..*"
        self._columns = {"item": {"id": "int32", "name": "string", "size": "int32"}, "note": {"text": "string"}}
        self._former: list[str] = []
        self._structures = 0
        self._items: dict[int, dict[str, Any]] = {}
        self._notes: Counter[str] = Counter()
        self._unsent: list[tuple[str, Content]] = []
        self._lost: set[str] = set()
        for table, partitions in (("item", 3), ("note", 1)):
            broker.create_topic(f"{self._prefix}.public.{table}", partitions)
        for key in range(1, 101):
            self._items[key] = {"id": key, "name": f"item {key}", "size": key % 3}
            self._record("item", "r", None, self._items[key])
        for number in range(50):
            self._note(f"note {number % 7}")
        self._send()

    # ------------------------------------------------------------ changes

    def change_rows(self, chance: random.Random) -> None:
        """Some changes of both tables, in one batch of the producer."""
        for _ in range(chance.randint(1, 6)):
            key = chance.choice(list(self._items)) if self._items else 0
            chance.choice((self._insert, self._update, self._delete, self._move))(chance, key)
            self._note(f"note {chance.randint(0, 6)}")
            self._note("twice")
            if chance.random() < 0.5:
                self._delete_note("twice")
        self._send()

    def change_structure(self) -> None:
        """A new column, a wider one, a renamed one or a dropped one: another of these at every call.

        Rows change before it and after it; every fifth gets a value in the columns of the change.
        """
        cycle, kind = divmod(self._structures, 4)
        self._structures += 1
        self._note(f"before {self._structures}")
        self._change_item_columns(cycle, kind)
        for key in [key for key in self._items if key % 5 == 0]:
            self._write(key, self._items[key] | self._values(cycle, kind))
        self._note(f"after {self._structures}")
        self._send()

    def _change_item_columns(self, cycle: int, kind: int) -> None:
        """A new name of a column is a column that records no longer have, and another one that they did not have."""
        columns, name = self._columns["item"], f"c{cycle}"
        if kind < 2:
            columns[name] = "int64" if kind else "int32"
        elif kind == 2:
            columns[f"renamed_{name}"] = columns.pop(name)
            self._former.append(name)
        else:
            dropped = f"renamed_c{cycle - 1}" if cycle else "size"
            del columns[dropped]
            self._former.append(dropped)

    def _values(self, cycle: int, kind: int) -> dict[str, int]:
        """What rows get in the columns that a change of structure made or made wider."""
        return ({f"c{cycle}": cycle}, {f"c{cycle}": 2**40 + cycle}, {f"renamed_c{cycle}": 2**40 - cycle}, {})[kind]

    def lose_notes(self, *, replaced: bool) -> None:
        """Delete the topic of `note`, whose rows stay as they are here; `replaced`: another topic of its name has other records."""
        topic = f"{self._prefix}.public.note"
        self._broker.delete_topics(topic)
        if replaced:
            self._broker.create_topic(topic, 1)
            for number in range(200):
                self._record("note", "c", None, {"text": f"other {number}"})
            self._send()
        self._lost.add("note")

    @contextmanager
    def changing(self, chance: random.Random, pause: float = 0.05) -> Iterator[None]:
        """Change rows all the time and structure now and then, from a thread, as long as the block lasts."""

        def change() -> None:
            self.change_rows(chance)
            if chance.random() < 0.1:
                self.change_structure()

        with repeating(change, pause):
            yield

    # ------------------------------------------------------------ what the tables hold

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns at the target: dropped ones stay there."""
        return [*self._columns[table], *(self._former if table == "item" else ())]

    def rows(self, table: str) -> Counter[Row]:
        """The rows of a table, as a bag."""
        if table == "note":
            return Counter({(text,): count for text, count in (+self._notes).items()})
        names = self.columns(table)
        return Counter(tuple(row.get(name) for name in names) for row in self._items.values())

    # ------------------------------------------------------------ single changes

    def _insert(self, chance: random.Random, key: int) -> None:
        self._write(chance.randint(1000, 10**6), {"name": f"new {key}", "size": 1})

    def _update(self, chance: random.Random, key: int) -> None:
        self._write(key, {**self._items.get(key, {}), "name": f"changed {chance.randint(0, 99)}"})

    def _delete(self, chance: random.Random, key: int) -> None:
        if row := self._items.pop(key, None):
            self._record("item", "d", row, None)
            self._unsent.append(("item", (self._key("item", row), None)))

    def _move(self, chance: random.Random, key: int) -> None:
        """Another key: a delete and an insert, as the connectors have it."""
        if row := self._items.get(key):
            self._delete(chance, key)
            self._write(chance.randint(1000, 10**6), row)

    def _write(self, key: int, row: Mapping[str, Any]) -> None:
        before = self._items.get(key)
        self._items[key] = {name: row.get(name) for name in self._columns["item"]} | {
            "id": key
        }  # a dropped one is NULL
        self._record("item", "u" if before else "c", before, self._items[key])

    def _note(self, text: str) -> None:
        if "note" in self._lost:
            return
        self._notes[text] += 1
        self._record("note", "c", None, {"text": text})

    def _delete_note(self, text: str) -> None:
        if "note" in self._lost:
            return
        self._notes[text] -= 1
        self._record("note", "d", {"text": text}, None)

    # ------------------------------------------------------------ records

    def _record(self, table: str, op: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        row = before or after or {}
        source = dict.fromkeys(_SOURCE, "") | {
            "db": "shop",
            "schema": "public",
            "table": table,
            "ts_ms": 1_700_000_000_000,
        }
        source |= {"connector": "postgresql", "version": "3.5.0.Final", "name": self._prefix, "snapshot": "false"}
        payload = {"before": self._whole(table, before), "after": self._whole(table, after), "source": source, "op": op}
        self._unsent.append((table, (self._key(table, row), _encoded(self._envelope(table), payload))))

    def _whole(self, table: str, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return row if row is None else {name: row.get(name) for name in self._columns[table]}

    def _key(self, table: str, row: Mapping[str, Any]) -> bytes | None:
        if table == "note":
            return None
        name = f"{self._prefix}.public.{table}.Key"
        field = {"field": "id", "type": "int32", "optional": False}
        return _encoded({"type": "struct", "optional": False, "name": name, "fields": [field]}, {"id": row["id"]})

    def _envelope(self, table: str) -> dict[str, Any]:
        name = f"{self._prefix}.public.{table}"
        columns = [
            {"field": c, "type": kind, "optional": c not in _REQUIRED} for c, kind in self._columns[table].items()
        ]
        texts = [{"field": part, "type": "string", "optional": True} for part in _SOURCE]
        source = [*texts, {"field": "ts_ms", "type": "int64", "optional": False}]
        fields = [
            {**_STRUCT, "field": "before", "name": f"{name}.Value", "fields": columns},
            {**_STRUCT, "field": "after", "name": f"{name}.Value", "fields": columns},
            {**_STRUCT, "field": "source", "name": "io.debezium.connector.postgresql.Source", "fields": source},
            {"field": "op", "type": "string", "optional": False},
        ]
        return {"type": "struct", "optional": False, "name": f"{name}.Envelope", "version": 2, "fields": fields}

    def _send(self) -> None:
        """Send the records, in order."""
        with self._broker.producer(linger_ms=0) as producer:
            for table, (key, value) in self._unsent:
                producer.send(f"{self._prefix}.public.{table}", key=key, value=value)
        self._unsent.clear()


def _encoded(schema: Mapping[str, Any], payload: Mapping[str, Any]) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


TABLES: Sequence[str] = ("item", "note")
