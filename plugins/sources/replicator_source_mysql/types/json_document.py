"""A column of binary JSON as the text the server prints of it."""

from __future__ import annotations

import pyarrow as pa

from replicator_source_mysql.types.json_binary import MalformedError
from replicator_source_mysql.types.json_text import text_of_document
from replicator_source_mysql.types.policy import ColumnPolicy

_HINT = "report it with the server's version; leave the column out to go on meanwhile"


def documents(raw: pa.BinaryArray, policy: ColumnPolicy) -> pa.StringArray:
    """The documents as text, NULL kept. Equal documents are read once; a tree leaves only a loop.

    Raises:
        DataError: When a value is no binary JSON.
    """
    seen: dict[bytes | None, str | None] = {None: None}
    texts: list[str | None] = []
    try:
        for data in raw.to_pylist():
            if data not in seen:
                seen[data] = text_of_document(data)
            texts.append(seen[data])
    except MalformedError:
        raise policy.error("bytes that are no binary JSON", code="RPL-3738", hint=_HINT) from None
    return pa.array(texts, pa.string())
