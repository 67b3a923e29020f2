"""Reads one table into Arrow with connectorx and drops it; run by the interpreter `install.python("connectorx")`.

Usage: connectorx_arrow.py URL TABLE. Prints the fingerprint: rows, sum of ids, sum of quantities.
"""

from __future__ import annotations

import os
import sys

import connectorx  # type: ignore[import-not-found,unused-ignore]
import pyarrow.compute as pc

_PARTITIONS = 2 * (os.cpu_count() or 1)


def main(url: str, table: str) -> None:
    """Read it in ranges of ids, a connection each, as its documentation does."""
    query = f"SELECT * FROM {table}"
    found = connectorx.read_sql(url, query, partition_on="id", partition_num=_PARTITIONS, return_type="arrow")
    print(found.num_rows, *(int(pc.sum(found[name]).as_py()) for name in ("id", "quantity")))


if __name__ == "__main__":
    main(*sys.argv[1:])
