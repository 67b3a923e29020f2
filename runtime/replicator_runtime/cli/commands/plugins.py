"""`replicator plugins`: lists installed sources and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from replicator_runtime.plugin_host import InstalledPlugin

Name = Annotated[str | None, typer.Argument(help="Show this plugin's settings.", show_default=False)]


Schemas = Annotated[
    bool,
    typer.Option("--schemas", help="With --json: the JSON Schema of all settings, and the documentation, as well."),
]


def plugins(name: Name = None, schemas: Schemas = False, as_json: AsJson = False, debug: Debug = False) -> None:
    """List installed sources and targets, or the settings of one.

    A package that cannot be loaded is named with its error. Example: replicator plugins postgres
    """
    with Report("plugins", as_json=as_json, debug=debug) as report:
        from replicator_runtime.plugin_host import PluginHost

        listing = PluginHost().listing()
        for broken in listing.broken:
            report.warn(f"{broken.package} offers nothing ({broken.entry_point}): {broken.error}")
        shown = [plugin for plugin in listing.plugins if name in (None, plugin.name)]
        if name is not None:
            _refuse_unknown(name, [plugin.name for plugin in listing.plugins])
        report.data = [
            _json(plugin, with_settings=name is not None) | (_more(plugin) if schemas else {}) for plugin in shown
        ]
        if name is None:
            report.table(("name", "type", "title", "package"), [(p.name, p.kind, p.title, p.package) for p in shown])
        for plugin in shown if name is not None else ():
            _print_settings(report, plugin)


def _refuse_unknown(name: str, known: list[str]) -> None:
    from replicator_runtime.plugin_host import UNKNOWN_PLUGIN
    from replicator_runtime.spelling import did_you_mean
    from replicator_sdk.errors import ConfigError

    if name not in known:
        raise ConfigError(f'no plugin is named "{name}"', code=UNKNOWN_PLUGIN, hint=did_you_mean(name, known))


def _json(plugin: InstalledPlugin, *, with_settings: bool) -> dict[str, object]:
    from replicator_runtime.config.reference import describe_settings

    shown: dict[str, object] = {
        "name": plugin.name,
        "type": plugin.plugin.plugin_type,
        "title": plugin.title,
        "package": plugin.package,
    }
    if with_settings:
        shown["settings"] = [setting.to_json() for setting in describe_settings(plugin.plugin.config_type)]
    return shown


def _more(plugin: InstalledPlugin) -> dict[str, object]:
    from replicator_runtime.config.reference import settings_schema
    from replicator_runtime.plugin_host import documentation

    return {
        "schema": settings_schema(plugin.plugin.config_type),
        "documentation": documentation(plugin),
    }


def _print_settings(report: Report, plugin: InstalledPlugin) -> None:
    from replicator_runtime.config.reference import describe_settings

    report.line(f"{plugin.name} ({plugin.kind}, {plugin.package}): {plugin.title}")
    rows = [(s.key, s.type, s.default, s.description) for s in describe_settings(plugin.plugin.config_type)]
    report.table(("key", "type", "default", "meaning"), rows)
