"""Finds the table of a record that has no envelope, by its topic or a field."""

from __future__ import annotations

import re
from typing import Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId

DEFAULT_DATABASE: Final = "kafka"
"""Of tables whose name has one part."""


def table_of_topic(topic: str, pattern: str | None) -> TableId:
    """The table of a topic: by the pattern's groups `database`, `schema`, `table`, or by the last two parts of its name.

    Raises:
        NeedsUserError: When the pattern does not match.
    """
    if pattern is None:
        return named(".".join(topic.split(".")[-2:]), DEFAULT_DATABASE)
    match = re.fullmatch(pattern, topic)
    if match is None:
        raise NeedsUserError(
            f"the topic {topic!r} does not match tableFromTopic",
            code="RPL-3908",
            hint='extend "tableFromTopic", or restrict "topicPattern"',
        )
    groups = {name: value or "" for name, value in match.groupdict().items()}
    database = groups.get("database") or groups.get("schema") or DEFAULT_DATABASE
    schema = groups.get("schema", "") if groups.get("database") else ""
    return TableId(database, groups["table"], schema)


def named(name: str, default: str) -> TableId:
    """The table of a dotted name: `database.schema.table`, `database.table`, or `table` in the database `default`."""
    *front, table = name.split(".")
    if not front:
        return TableId(default, table)
    if len(front) == 1:
        return TableId(front[0], table)
    return TableId(front[-2], table, front[-1])
