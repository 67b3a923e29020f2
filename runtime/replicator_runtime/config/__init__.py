"""The pipeline JSON: typed settings, macros, selection of tables, and the plugins it names, checked all at once."""

from replicator_runtime.config.model import PipelineConfig
from replicator_runtime.config.pipeline import (
    Pipeline,
    PipelineEnd,
    build_pipeline,
    load_config,
    load_end,
    load_pipeline,
)
from replicator_runtime.config.problem import InvalidPipelineError, Problem
from replicator_runtime.config.requirements import SparkRequirements
from replicator_runtime.config.selection import SelectedTable, Selection

__all__ = [
    "InvalidPipelineError",
    "Pipeline",
    "PipelineConfig",
    "PipelineEnd",
    "Problem",
    "SelectedTable",
    "Selection",
    "SparkRequirements",
    "build_pipeline",
    "load_config",
    "load_end",
    "load_pipeline",
]
