"""Copies one Postgres table into a Delta table with dlt and connectorx; run by the interpreter `install.python("dlt")`.

Usage: dlt_delta.py URL TABLE FOLDER. Prints the number of rows.
"""

from __future__ import annotations

import os
import sys

os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "DLT_TELEMETRY": "0", "RUNTIME__LOG_LEVEL": "ERROR"}

import dlt  # type: ignore[import-not-found,unused-ignore]
from dlt.sources.sql_database import sql_table  # type: ignore[import-not-found,unused-ignore]


def main(url: str, table: str, folder: str) -> None:
    """Copy the table and say how many rows it has."""
    source = sql_table(
        credentials=url.replace("postgresql://", "postgresql+psycopg2://"),
        table=table,
        schema="public",
        backend="connectorx",
        backend_kwargs={"return_type": "arrow"},
        primary_key="id",
        write_disposition="replace",
        chunk_size=100_000,
    )
    source.apply_hints(table_format="delta")
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}/lake"),
        dataset_name="raw",
        pipelines_dir=f"{folder}/pipelines",
    )
    pipeline.run(source, loader_file_format="parquet")
    print(pipeline.last_trace.last_normalize_info.row_counts[table])


if __name__ == "__main__":
    main(*sys.argv[1:])
