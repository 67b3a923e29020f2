"""Which rows of which tables a request names: by hashes of their keys, since no values of rows are stored."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from replicator_runtime.engine.verification.verdict import KEY
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPAIR: Final = "table.repair"
KEYS_AT_MOST: Final = 20_000
"""Of a table. A request is a small file, and its rows are held in memory; a table of more is better copied again."""


_KEYS_IN_A_REQUEST: Final = 100_000


def requests_of(keys: Mapping[TableId, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of as many requests as keep each of them small; as for `request_of`."""
    waiting: dict[TableId, Any] = {}
    for table, found in keys.items():
        if waiting and sum(map(len, waiting.values())) + len(found) > _KEYS_IN_A_REQUEST:
            yield request_of(waiting)
            waiting = {}
        waiting[table] = found
    if waiting:
        yield request_of(waiting)


def request_of(keys: Mapping[TableId, Any]) -> dict[str, Any]:
    """The arguments of a request.

    Args:
        keys: By table, arrays that have the fields of `KEY`.
    """
    texts = [
        base64.b64encode(np.rec.fromarrays([found["k1"], found["k2"]], dtype=KEY).tobytes()).decode()
        for found in keys.values()
    ]
    return {"tables": [str(table) for table in keys], "ids": [table.to_json() for table in keys], "keys": texts}


def keys_of(arguments: Mapping[str, Any]) -> dict[TableId, Any]:
    """The inverse of `request_of`.

    Raises:
        NeedsUserError: RPL-1225 when it is not such a request.
    """
    try:
        tables = [TableId.from_json(value) for value in arguments["ids"]]
        keys = [np.frombuffer(base64.b64decode(text, validate=True), KEY) for text in arguments["keys"]]
        found = dict(zip(tables, keys, strict=True))
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise _unreadable(type(error).__name__) from error
    if not found:
        raise _unreadable("no tables")
    return found


def _unreadable(why: str) -> NeedsUserError:
    return NeedsUserError(
        f"the request does not say which rows to repair: {why}", code="RPL-1225", hint="give the command again"
    )
