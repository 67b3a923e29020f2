"""Reads Debezium's topic of transaction metadata, which contains the number of events of each transaction.

Verified with the connectors for PostgreSQL and MySQL, 3.5: the topic's records are keyed by id, so with several partitions
the order of transactions is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.schema import TableId
from replicator_source_kafka.records import Records

_POSTGRES: Final = r"^(\d+):\d+$"


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction.

    Attributes:
        id: The transaction's id.
        index: The index of the record.
        events: Debezium's name of a table → the number of the transaction's events in it.
    """

    id: str
    index: int
    events: Mapping[str, int]


def transaction_ids(written: pa.StringArray) -> pa.StringArray:
    """The parts of the written ids that identify transactions.

    PostgreSQL's connector writes `transaction:position in the log`, and the position differs between events.
    """
    return pc.replace_substring_regex(written, _POSTGRES, r"\1")


def transaction_ends(records: Records) -> Iterator[TransactionEnd]:
    """The ends of transactions among some records of the topic.

    A Python object for each is fast enough: a transaction has one end, whatever the number of its events.
    """
    for index, content in enumerate(records.value.to_pylist()):
        end = _end(content)
        if end is not None and isinstance(end.get("data_collections"), list):
            (identity,) = transaction_ids(pa.array([str(end["id"])])).to_pylist()
            events = {str(each["data_collection"]): int(each["event_count"]) for each in end["data_collections"]}
            yield TransactionEnd(identity, index, events)


def is_named(table: TableId, collection: str) -> bool:
    """Whether Debezium's name of a table is this one's: `schema.table`, `database.table`, or all three."""
    whole = ".".join(part for part in (table.database, table.schema, table.table) if part)
    return whole == collection or whole.endswith("." + collection)


def _end(content: bytes | None) -> dict[str, Any] | None:
    try:
        value = json.loads(content or b"null")
        value = value.get("payload", value)
        return value if value.get("status") == "END" else None
    except (ValueError, AttributeError):  # not the end of a transaction
        return None
