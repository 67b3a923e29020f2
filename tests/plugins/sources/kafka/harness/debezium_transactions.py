"""Records of transactions as Debezium's Postgres connector writes them (`provide.transaction.metadata`), without schemas.

Made after what the connector, 3.5, wrote: each event of a transaction has the transaction's number and a place of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.services.kafka.client import Content

PREFIX = "shop"


@dataclass(frozen=True)
class Transaction:
    """Inserted rows, by table and id.

    Attributes:
        number: PostgreSQL's number of it.
        rows: Table and id of each row.
    """

    number: int
    rows: Sequence[tuple[str, int]] = field(default_factory=list)

    def events(self) -> list[tuple[str, Content]]:
        """Table and record of each row."""
        return [(table, self._event(order, table, row)) for order, (table, row) in enumerate(self.rows)]

    def _event(self, order: int, table: str, row: int) -> Content:
        source = {"connector": "postgresql", "name": PREFIX, "db": "shop", "schema": "public", "table": table}
        value = {
            "before": None,
            "after": {"id": row, "note": f"of {self.number}"},
            "source": {**source, "ts_ms": 1, "txId": self.number},
            "transaction": {"id": self._id(order), "total_order": order + 1, "data_collection_order": 1},
            "op": "c",
            "ts_ms": 1,
        }
        return _text({"id": row}), _text(value)

    def begin(self) -> Content:
        """The record of its beginning."""
        return self._border("BEGIN", 0, None)

    def end(self) -> Content:
        """The record of its end."""
        return self._border("END", len(self.rows), Counter(table for table, _ in self.rows))

    def _border(self, status: str, order: int, tables: Counter[str] | None) -> Content:
        listed = tables and [{"data_collection": f"public.{t}", "event_count": n} for t, n in tables.items()]
        count = tables and tables.total()
        value = {"status": status, "id": self._id(order), "event_count": count, "data_collections": listed, "ts_ms": 1}
        return _text({"id": self._id(order)}), _text(value)

    def _id(self, order: int) -> str:
        return f"{self.number}:{1000 * self.number + order}"


def _text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
