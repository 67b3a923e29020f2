"""`replicator validate`: checks a pipeline JSON."""

from __future__ import annotations

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject


def validate(pipeline: PipelineFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check a pipeline JSON without connecting to anything.

    Names every unknown key with the nearest known one, every wrong value and every macro without a value, each
    with its JSON path. Example: replicator validate pipeline.json
    """
    with Report("validate", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.config import load_pipeline

        loaded = load_pipeline(pipeline)
        report.data = {
            "name": loaded.config.name,
            "namespace": loaded.config.namespace,
            "offsetBasePath": loaded.config.offset_base_path,
            "source": {"stage": loaded.source_stage, "plugin": loaded.source.name},
            "target": {"stage": loaded.target_stage, "plugin": loaded.target.name},
        }
        report.line(f"{pipeline} is valid: {loaded.source.name} to {loaded.target.name}")
        report.note("Next: `replicator assess PIPELINE`")
