"""From a pipeline JSON to the objects that a run needs; all its problems are reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, SecretStr

from replicator_runtime.config.default_paths import expand_home
from replicator_runtime.config.document import read_document
from replicator_runtime.config.macros import resolve
from replicator_runtime.config.model import PipelineConfig, StageConfig
from replicator_runtime.config.plugin_limits import copying_problems, data_error_problem
from replicator_runtime.config.problem import InvalidPipelineError, Problem
from replicator_runtime.config.requirements import CollectingConfigurer, SparkRequirements
from replicator_runtime.config.sections.destinations import Destination, destinations
from replicator_runtime.config.selection import Selection
from replicator_runtime.config.stages import Ends, find_end, find_ends
from replicator_runtime.config.validation import json_path, parse_model
from replicator_runtime.files_of_service import refused_files
from replicator_runtime.networks_of_service import refused_hosts
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.source import DeltaSource
from replicator_sdk.target import DeltaTarget

BEYOND_REACH = "RPL-1556"
_WITH_SECRETS = frozenset({"stages", "notifications", "lineage"})
"""Keys whose macros are resolved where the values are used."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline ready to run; nothing is connected yet.

    Attributes:
        config: The settings. It has the plugins' properties as written, macros unresolved, so it may be shown.
        source: The source, with its settings; secrets resolved.
        target: The target, likewise.
        source_stage: Name of the source's stage.
        target_stage: Name of the target's stage.
        selection: Which tables and columns are replicated.
        spark: What the plugins need in the Spark session; `config.spark.conf` wins over it.
        destinations: The services that are notified of conditions; secrets resolved.
        lineage_transport: The settings of `lineage.transport`, secrets resolved: never to be shown. None where no lineage is published.
    """

    config: PipelineConfig
    source: DeltaSource
    target: DeltaTarget
    source_stage: str
    target_stage: str
    selection: Selection
    spark: SparkRequirements
    destinations: tuple[Destination, ...] = ()
    lineage_transport: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def out_of_range(self) -> OutOfRange:
        """What happens to values no standard type holds: the source's setting, else the target's, else `fail`."""
        return out_of_range_of(self.source, self.target)


def out_of_range_of(*plugins: DeltaSource | DeltaTarget) -> OutOfRange:
    """The first setting that one of the plugins has, else `fail`."""
    words = (getattr(plugin.config, "out_of_range", None) for plugin in plugins)
    return next((OutOfRange(word) for word in words if word is not None), OutOfRange.FAIL)


def load_config(path: Path | str) -> PipelineConfig:
    """Read and check the settings in the file `path` without looking for its plugins.

    Raises:
        ConfigError: When the file is unreadable or wrong; an `InvalidPipelineError` holds every problem.
    """
    config, problems = _settings(read_document(Path(path)))
    return _settled(config, problems, str(path))


def load_pipeline(path: Path | str, *, host: PluginHost | None = None) -> Pipeline:
    """Read the file `path`, find its plugins, resolve its macros and make source and target.

    Connects to nothing and starts no Spark.

    Args:
        path: The pipeline JSON.
        host: Where plugins are looked up; the installed packages when left out.

    Raises:
        ConfigError: When anything is wrong; an `InvalidPipelineError` holds every problem found.
    """
    return build_pipeline(read_document(Path(path)), host=host, where=str(path))


def build_pipeline(
    document: Mapping[str, Any], *, host: PluginHost | None = None, where: str = "the pipeline"
) -> Pipeline:
    """As `load_pipeline`, from parsed JSON; `where` names it in errors."""
    from replicator_runtime.lineage.transport import resolved_transport

    host, configurer = host or PluginHost(), CollectingConfigurer()
    config, problems = _settings(document)
    if config is None or problems:
        raise InvalidPipelineError([*problems, *_plugin_problems(host, document, configurer)], where=where)
    ends, problems = find_ends(config)
    made = [_make_plugin(host, config.stages[i], i, configurer, problems) for i in range(len(config.stages))]
    notified, wrong = destinations(config.notifications)
    problems += [*configurer.problems, *wrong]
    if ends is not None and isinstance(source := made[ends.source], DeltaSource):
        problems += copying_problems(config, source)
    transport, found = resolved_transport(None if config.lineage is None else config.lineage.transport)
    problems += [*found, *_host_problems(transport, "lineage.transport")]
    if problems or ends is None:
        raise InvalidPipelineError(problems, where=where)
    if unable := data_error_problem(config, made[ends.source], made[ends.target]):
        raise InvalidPipelineError([unable], where=where)
    return replace(_assemble(config, ends, made, configurer), destinations=notified, lineage_transport=transport)


@dataclass(frozen=True)
class PipelineEnd:
    """One end of a pipeline that may lack the other; nothing is connected yet.

    Attributes:
        config: The settings, as `Pipeline` has them.
        plugin: The source or the target, with its settings; secrets resolved.
        selection: Which tables and columns are replicated.
    """

    config: PipelineConfig
    plugin: DeltaSource | DeltaTarget
    selection: Selection

    @property
    def source(self) -> DeltaSource:
        """The plugin of an end that was loaded as the source."""
        assert isinstance(self.plugin, DeltaSource)
        return self.plugin


def load_end(path: Path | str, kind: Literal["source", "target"], *, host: PluginHost | None = None) -> PipelineEnd:
    """Read the file `path` and create its source, or its target; the other end is not looked at, and may be missing.

    Args:
        path: The pipeline JSON.
        kind: Which end.
        host: Where plugins are looked up; the installed packages when left out.

    Raises:
        ConfigError: When the settings, or that end, are wrong; an `InvalidPipelineError` holds every problem found.
    """
    config, problems = _settings(read_document(Path(path)))
    config = _settled(config, problems, str(path))
    found, problems = find_end(config, kind)
    configurer = CollectingConfigurer()
    plugin = None
    if found is not None:
        plugin = _make_plugin(host or PluginHost(), config.stages[found], found, configurer, problems)
    problems += configurer.problems
    if problems or plugin is None:
        raise InvalidPipelineError(problems, where=str(path))
    return PipelineEnd(config, plugin, Selection(config))


def _assemble(
    config: PipelineConfig, ends: Ends, made: list[DeltaSource | DeltaTarget | None], configurer: CollectingConfigurer
) -> Pipeline:
    source, target = made[ends.source], made[ends.target]
    assert isinstance(source, DeltaSource)
    assert isinstance(target, DeltaTarget)
    return Pipeline(
        config=config,
        source=source,
        target=target,
        source_stage=config.stages[ends.source].name,
        target_stage=config.stages[ends.target].name,
        selection=Selection(config),
        spark=configurer.spark,
    )


def _settings(document: Mapping[str, Any]) -> tuple[PipelineConfig | None, list[Problem]]:
    resolved, problems = _resolve_outside_properties(document)
    config, more = parse_model(PipelineConfig, resolved)
    if config is not None:
        archive = config.archive and config.archive.model_copy(update={"path": expand_home(config.archive.path)})
        paths = {"offset_base_path": expand_home(config.offset_base_path), "archive": archive}
        config = config.model_copy(update=paths)
    problems += _reach_problems(resolved.get("archive"), "archive")
    for key in ("offsetBasePath", "spark"):
        problems += _host_problems(resolved.get(key), key)
    return config, problems + more


def _reach_problems(settings: Any, path: str) -> list[Problem]:
    """Files and hosts that no pipeline of a service may use."""
    hint = "name a file outside of the service's folder, below a folder that it allows"
    files = [Problem(where, reason, hint, BEYOND_REACH) for where, reason in refused_files(settings, path)]
    return files + _host_problems(settings, path)


def _host_problems(settings: Any, path: str) -> list[Problem]:
    hint = "name a host whose addresses the service allows"
    return [Problem(where, reason, hint, BEYOND_REACH) for where, reason in refused_hosts(settings, path)]


def _settled(config: PipelineConfig | None, problems: list[Problem], where: str) -> PipelineConfig:
    if problems or config is None:
        raise InvalidPipelineError(problems, where=where)
    return config


def _resolve_outside_properties(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Resolve what may be shown; the properties of plugins keep their macros until the plugin is created."""
    resolved: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in document.items():
        if key in _WITH_SECRETS:
            resolved[key] = value
            continue
        resolved[key], found = resolve(value, key, secrets_allowed=False)
        problems += found
    return resolved, problems


def _plugin_problems(host: PluginHost, document: Mapping[str, Any], configurer: CollectingConfigurer) -> list[Problem]:
    """The problems inside the plugins of a document that has problems elsewhere as well."""
    problems: list[Problem] = []
    written = document.get("stages")
    for index, stage in enumerate(written if isinstance(written, list) else []):
        parsed, _ = parse_model(StageConfig, stage) if isinstance(stage, Mapping) else (None, [])
        if parsed is not None:
            _make_plugin(host, parsed, index, configurer, problems)
    return problems + configurer.problems


def _make_plugin(
    host: PluginHost, stage: StageConfig, index: int, configurer: CollectingConfigurer, problems: list[Problem]
) -> DeltaSource | DeltaTarget | None:
    """Make one stage's plugin; None after adding to `problems` why it could not be."""
    reference = stage.plugin
    try:
        kind = host.source(reference.name) if reference.is_source else host.target(reference.name)
    except NeedsUserError as error:
        problems.append(Problem(json_path(("stages", index, "plugin", "name")), error.message, error.hint, error.code))
        return None
    path = json_path(("stages", index, "plugin", "properties"))
    properties, unresolved = resolve(reference.properties, path)
    config, wrong = parse_model(kind.config_type, properties, path)
    without_value = {problem.path for problem in unresolved}
    refused = _reach_problems(properties, path)
    problems += [*unresolved, *refused, *(problem for problem in wrong if problem.path not in without_value)]
    if config is None or unresolved or refused:
        return None
    _register_secrets(config)
    plugin = kind(config)
    plugin.configure(configurer.stage(index))
    return plugin


def _register_secrets(config: BaseModel) -> None:
    """Make every secret setting known to redaction, also those written in the JSON itself."""
    from replicator_runtime.observability.redaction import register_secret

    for _, value in config:
        if isinstance(value, SecretStr) and value.get_secret_value():
            register_secret(value.get_secret_value())
        elif isinstance(value, BaseModel):
            _register_secrets(value)
