"""Which table a record is of, where no envelope tells."""

from __future__ import annotations

import re

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId

_NO_FOLDER = "kafka"


def table_of_topic(topic: str, pattern: str | None) -> TableId:
    """The table of a topic: by the pattern's groups `database`, `schema`, `table`, else its name's last two parts.

    Raises:
        NeedsUserError: When the pattern does not match.
    """
    if pattern is None:
        return named(".".join(topic.split(".")[-2:]), _NO_FOLDER)
    match = re.fullmatch(pattern, topic)
    if match is None:
        raise NeedsUserError(
            f"the topic {topic!r} does not match tableFromTopic",
            code="RPL-3908",
            hint='widen "tableFromTopic", or narrow "topicPattern"',
        )
    groups = {name: value or "" for name, value in match.groupdict().items()}
    database = groups.get("database") or groups.get("schema") or _NO_FOLDER
    schema = groups.get("schema", "") if groups.get("database") else ""
    return TableId(database, groups["table"], schema)


def named(name: str, folder: str) -> TableId:
    """The table of a dotted name: `database.schema.table`, `database.table`, or `table` in `folder`."""
    *front, table = name.split(".")
    if not front:
        return TableId(folder, table)
    if len(front) == 1:
        return TableId(front[0], table)
    return TableId(front[-2], table, front[-1])
