"""Tables of settings, from their models, and the help of every command."""

from __future__ import annotations

from typing import Any


def settings_part(model: Any) -> str:
    """The table of a settings model."""
    from replicator_runtime.config.reference import describe_settings

    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for setting in describe_settings(model):
        default = f"`{setting.default}`" if setting.default not in ("", "required") else setting.default
        cells = (f"`{setting.key}`", setting.type, default, setting.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def pipeline_part() -> str:
    """The table of the pipeline's own keys."""
    from replicator_runtime.config import PipelineConfig

    return settings_part(PipelineConfig)


def plugins_part() -> str:
    """A table for each built-in plugin."""
    from replicator_runtime.plugin_host import PluginHost

    listing = PluginHost().listing()
    parts = [
        f"### {plugin.kind.capitalize()} `{plugin.name}`\n\n{settings_part(plugin.plugin.config_type)}\n"
        for plugin in listing.plugins
        if plugin.package.startswith("replicator ")
    ]
    return "\n".join(parts)


def commands_part() -> str:
    """Every command's help."""
    import os

    os.environ["COLUMNS"] = "100"
    from typer.main import get_command
    from typer.testing import CliRunner

    from replicator_runtime.cli.app import app

    names: list[list[str]] = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        names += [[name, inner] for inner in getattr(command, "commands", {})] or [[name]]
    runner = CliRunner()
    parts = []
    for words in names:
        shown = runner.invoke(app, [*words, "--help"], prog_name="replicator", terminal_width=100)
        parts.append(f"### replicator {' '.join(words)}\n\n```text\n{shown.stdout.strip()}\n```\n")
    return "\n".join(parts)
