"""Applies the setting `outOfRange` to values that the standard types cannot hold."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.config import OutOfRange

_CODE = "RPL-3010"


def column_policy(rule: OutOfRange, table: str, column: str, replaced: Counter[str]) -> OutOfRangePolicy:
    """The rule for one column; `replaced` is added to."""
    return OutOfRangePolicy(rule, table, column, _CODE, replaced)


def finite(text: pa.StringArray, policy: OutOfRangePolicy) -> pa.StringArray:
    """`text` of numbers with the rule applied to NaN and infinities, which have no nearest number."""
    mask = pc.is_in(pc.ascii_lower(text), pa.array(["nan", "infinity", "-infinity"]))
    return policy.replace_where(text, mask, "NaN or an infinity", None)
