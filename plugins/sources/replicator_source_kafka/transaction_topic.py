"""Debezium's transaction metadata: which events a transaction of the source has, told by a topic of their own.

Verified with the connectors for PostgreSQL and MySQL, 3.5: the topic's records are keyed by id, so that with several
partitions nothing is known of the order of transactions.
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
        id: The transaction.
        index: Which of the records told it.
        events: Debezium's name of a table → how many events the transaction has of it.
    """

    id: str
    index: int
    events: Mapping[str, int]


def transaction_ids(told: pa.StringArray) -> pa.StringArray:
    """What identifies the transactions of these ids.

    PostgreSQL's connector writes `transaction:place in the log`, and the place differs from event to event.
    """
    return pc.replace_substring_regex(told, _POSTGRES, r"\1")


def transaction_ends(records: Records) -> Iterator[TransactionEnd]:
    """The ends among some records of the topic, with a JSON object for each: a transaction has one, not each event."""
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
    except (ValueError, AttributeError):  # whatever that is, it ends no transaction
        return None
