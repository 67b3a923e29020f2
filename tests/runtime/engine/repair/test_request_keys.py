"""A request to repair names tables and hashes of keys, and no values of rows; large ones are several."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from replicator_runtime.engine.repair.request_keys import keys_of, request_of, requests_of
from replicator_runtime.engine.verification.verdict import KEY, OBSERVED
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError

A, B = TableId("shop", "a.b", "public"), TableId("shop", "b")


def keys(count: int, kind: Any = KEY) -> Any:
    found = np.zeros(count, kind)
    found["k1"], found["k2"] = np.arange(count) - 5, 1 << 62
    return found


def test_keys_come_back_as_they_were() -> None:
    arguments = json.loads(json.dumps(request_of({A: keys(9), B: keys(2, OBSERVED)})))
    found = keys_of(arguments)
    assert list(found) == [A, B]
    assert found[A].tolist() == keys(9).tolist()
    assert found[B].tolist() == keys(2).tolist()
    assert arguments["tables"] == ["public.a.b", "shop.b"]


def test_many_keys_are_several_requests_each_with_whole_tables() -> None:
    tables = {TableId("shop", f"t{n}"): keys(20_000) for n in range(12)}
    found = [keys_of(arguments) for arguments in requests_of(tables)]
    assert [len(one) for one in found] == [5, 5, 2]
    assert [table for one in found for table in one] == list(tables)
    assert list(requests_of({})) == []


@pytest.mark.parametrize(
    "arguments",
    [{}, {"ids": [], "keys": []}, {"ids": [A.to_json()], "keys": []}, {"ids": [A.to_json()], "keys": ["AAAA"]},
     {"ids": [A.to_json()], "keys": ["?"]}, {"ids": [{}], "keys": [""]}],
)  # fmt: skip
def test_what_is_no_such_request_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(NeedsUserError) as raised:
        keys_of(arguments)
    assert raised.value.code == "RPL-1225"
