"""Prints the lineage of a pipeline's tables: `python -m` this module, with the pipeline's file. Connects to nothing.

A process of its own, since it loads the pipeline's plugins.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from replicator_sdk.errors import ReplicatorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.tables.table_store import TableRecord


def main(arguments: Sequence[str]) -> int:
    """Print it as an envelope; the exit code.

    Args:
        arguments: The pipeline's file.
    """
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.engine.tables.table_store import TableStore
    from replicator_runtime.observability.redaction import redact
    from replicator_state import ReplicatorDirectory

    try:
        pipeline = load_pipeline(arguments[0])
        config = pipeline.config
        directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name, retry_seconds=5)
        store = TableStore(directory.states().scoped("runtime"), pipeline.source.offset_type.from_fields)
        store.load()
        found = [_table(pipeline, record) for _, record in sorted(store.records.items()) if record.schemas]
    except ReplicatorError as error:
        shown = {
            "code": error.code,
            "class": error.error_class,
            "message": redact(error.message),
            "hint": redact(error.hint),
        }
        print(json.dumps({"data": None, "warnings": [], "error": shown}))  # noqa: T201
        return error.exit_code
    print(json.dumps({"data": found, "warnings": [], "error": None}))  # noqa: T201
    return 0


def _table(pipeline: Pipeline, record: TableRecord) -> dict[str, Any]:
    """A table's datasets, and the column that each column comes from."""
    from replicator_runtime.lineage.datasets import describe

    lineage = describe(pipeline, record.schema, None, "")
    return {
        **record.table.to_json(),
        "source": {"namespace": lineage.source.namespace, "name": lineage.source.name},
        "target": {"namespace": lineage.target.namespace, "name": lineage.target.name},
        "columns": [
            {"source": one.source, "sourceType": one.source_type, "target": one.target, "type": one.type}
            for one in lineage.fields
        ],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
