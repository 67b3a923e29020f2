"""`replicator warm-up`: what the first start of a pipeline on a machine has to fetch and find out, done before it."""

from __future__ import annotations

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject


def warm_up(pipeline: PipelineFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Prepare this machine for a pipeline: fetch its jars, and archive Spark's classes, so that every start after it is sooner.

    Reads neither source nor target. Takes about a minute the first time, and 130 MB of the cache folder. For images of containers, and
    after Java or Spark were installed again. Example: replicator warm-up pipeline.json
    """
    with Report("warm-up", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.run_state.spark_handle import spark_of
        from replicator_runtime.observability.logs import configure_logging
        from replicator_runtime.spark.warm_up import warm_up as prepare

        configure_logging("error", "console")
        done = prepare(**spark_of(load_pipeline(pipeline)))
        report.data = done.to_json()
        for jar in done.jars:
            report.line(f"jar: {jar}")
        report.line(f"classes: {done.archive} ({'made now' if done.is_new else 'there already'})")
