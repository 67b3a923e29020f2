"""A plugin's class knows the type of its settings, and works without saying it."""

from __future__ import annotations

from typing import Any

from replicator_sdk import DeltaTarget, EventConsumer, PluginConfig
from replicator_sdk.context import DeltaTargetContext


class FolderConfig(PluginConfig):
    path: str


class TypedTarget(DeltaTarget[FolderConfig]):
    name, config_type = "typed", FolderConfig

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        raise NotImplementedError(self.config.path)  # mypy knows `path`


class UntypedTarget(DeltaTarget):
    name, config_type = "untyped", FolderConfig

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        raise NotImplementedError


def test_a_typed_plugin_reads_its_own_settings() -> None:
    path: str = TypedTarget(FolderConfig(path="a")).config.path
    assert path == "a"


def test_a_plugin_without_a_type_argument_has_the_general_settings() -> None:
    target = UntypedTarget(FolderConfig(path="a"))
    config: PluginConfig = target.config
    assert config == FolderConfig(path="a")


def test_both_are_plugins() -> None:
    plugins: list[type[DeltaTarget[Any] | DeltaTarget]] = [TypedTarget, UntypedTarget]
    assert all(issubclass(plugin, DeltaTarget) for plugin in plugins)
