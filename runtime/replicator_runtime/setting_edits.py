"""Finds what was edited in the plugins' settings since the last run, and what follows from each edit.

Runs log it before they do anything, and an assessment reports it before there is a run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_runtime.observability.redaction import redactor
from replicator_runtime.stored_forms import SETTINGS, head, parsed
from replicator_sdk.config import SettingEdit
from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline
    from replicator_sdk.config import PluginConfig
    from replicator_state import StateStore

_AT_ONCE = SettingEdit("in effect from the start of the next run")


@dataclass(frozen=True, slots=True)
class EditedSetting:
    """A setting of source or target that is not as it was in the last run.

    Attributes:
        end: "source" or "target".
        name: As in the pipeline JSON; `plugin` where the plugin itself is another one.
        finding: What was edited, and what follows.
        is_checked: Whether the start of a run refuses it where it does not fit.
    """

    end: str
    name: str
    finding: Finding
    is_checked: bool = False


def settings_edits(pipeline: Pipeline, store: StateStore) -> dict[str, list[Finding]]:
    """The findings of `edited_settings`, by "source" and "target".

    Raises:
        NeedsUserError: As `edited_settings`.
    """
    found: dict[str, list[Finding]] = {"source": [], "target": []}
    for edited in edited_settings(pipeline, store):
        found[edited.end].append(edited.finding)
    return found


def edited_settings(pipeline: Pipeline, store: StateStore) -> list[EditedSetting]:
    """What was edited since `store_settings` was called last, the source's first; nothing where it never was.

    Raises:
        NeedsUserError: RPL-1211 when the source is another plugin: what is stored is of another kind of log.
    """
    content = store.get(SETTINGS)
    before = parsed(SETTINGS, content) if content else {}
    now = _settings(pipeline)
    found: list[EditedSetting] = []
    for end, config in (("source", pipeline.source.config), ("target", pipeline.target.config)):
        old, new = before.get(end), now[end]
        if old is None:
            continue
        if old["plugin"] != new["plugin"]:
            found.append(EditedSetting(end, "plugin", _other_plugin(end, old["plugin"], new["plugin"])))
            continue
        names = sorted(name for name in old["settings"].keys() & new["settings"].keys())
        changed = [name for name in names if old["settings"][name] != new["settings"][name]]
        found += [_edited(end, config, n, old["settings"][n], new["settings"][n]) for n in changed]
    return found


def store_settings(pipeline: Pipeline, store: StateStore) -> None:
    """Store the settings of a run that begins; durable when this returns. Secrets are not stored."""
    content = json.dumps({**head(SETTINGS), **_settings(pipeline)}).encode()
    if store.get(SETTINGS) != content:
        store.put(SETTINGS, content)


def _settings(pipeline: Pipeline) -> dict[str, Any]:
    ends = (("source", pipeline.source), ("target", pipeline.target))
    return {end: {"plugin": plugin.name, "settings": _visible(plugin.config)} for end, plugin in ends}


def _visible(config: PluginConfig) -> dict[str, Any]:
    """The settings as JSON; secrets are stars there, also those that a macro has put into other settings."""
    shown: dict[str, Any] = redactor().value(config.model_dump(mode="json", by_alias=True))
    return shown


def _edited(end: str, config: PluginConfig, name: str, old: Any, new: Any) -> EditedSetting:
    edit = config.edits.get(name, _AT_ONCE)
    finding = Finding(
        name="setting_edited",
        severity=edit.severity,
        description=f"`{name}` of the {end} was {json.dumps(old)} and is {json.dumps(new)}",
        impact=edit.impact,
        suggestion=edit.suggestion,
        code=edit.code,
    )
    return EditedSetting(end, name, finding, edit.checked_at_start)


def _other_plugin(end: str, old: str, new: str) -> Finding:
    if end == "source":
        raise NeedsUserError(
            f"the pipeline's source was {old} and is {new}: the saved offset is of another kind of log",
            code="RPL-1211",
            hint="put the source back; or, to replace what the target has by the new source, `replicator reset PIPELINE`: every table is"
            " copied",
        )
    return Finding(
        name="setting_edited",
        severity=Severity.ERROR,
        description=f"the target was {old} and is {new}",
        impact="no table of earlier runs is there: each stops (RPL-4101)",
        suggestion="put the target back; or `replicator reset PIPELINE`: every table is copied into the new one",
    )
