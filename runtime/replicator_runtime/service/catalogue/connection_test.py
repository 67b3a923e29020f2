"""Tests the settings of one plugin: what an assessment of that end finds, as checks in the order in which they depend on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from replicator_runtime.service.catalogue.schemas import Check
from replicator_runtime.service.drafts.answers import CONNECTIVITY
from replicator_runtime.service.drafts.documents import completed, config_text
from replicator_runtime.service.drafts.questions import ask, raise_for_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from replicator_runtime.service.catalogue.schemas import PluginSettings
    from replicator_runtime.service.context import ServiceContext

_UNRESOLVED = "RPL-1004"
_NAME = "connection"
_STATUS: Mapping[str, Literal["fail", "warn", "ok"]] = {"ERROR": "fail", "WARNING": "warn", "INFO": "ok"}
_AFTER_SETTINGS = ("connection", "assessment")


def run_checks(context: ServiceContext, namespace: str, plugin: PluginSettings) -> list[Check]:
    """Test the settings; connects, and changes nothing.

    Raises:
        ProblemError: When the test itself could not be made: RPL-1502 when it took too long.
    """
    stage = {"name": plugin.end, "plugin": plugin.model_dump()}
    config = completed({"stages": [stage]}, context.settings, namespace, _NAME)
    config_text(config)
    found = ask(context, config, ["assess", "--only", plugin.end])
    if found.data is None:
        if (found.error or {}).get("class") != "config":
            raise_for_problems(found, config)
        return _named_apart([*_of_settings(found.problems), *_skipped(_AFTER_SETTINGS)])
    checks = [Check(name="settings", status="ok", message="every setting is valid, and every reference has a value")]
    checks += _of_findings(found.data[plugin.end], plugin.end)
    if plugin.end == "source" and all(check.status != "skipped" for check in checks):
        checks.append(_of_tables(context, config))
    return _named_apart(checks)


def _of_settings(problems: Sequence[Mapping[str, str]]) -> Iterator[Check]:
    for problem in problems:
        place = problem["path"].removeprefix("stages[0].plugin.").removeprefix("properties.")
        yield Check(
            name="references" if problem["code"] == _UNRESOLVED else "settings",
            status="fail",
            message=f"{place}: {problem['message']}" if place else problem["message"],
            hint=problem["hint"],
            code=problem["code"],
        )


def _of_findings(findings: Sequence[Mapping[str, Any]], end: str) -> Iterator[Check]:
    away = [f for f in findings if f["name"] in CONNECTIVITY and f["severity"] == "ERROR"]
    if away:
        yield from map(_check, away)
        yield from _skipped(_AFTER_SETTINGS[1:])
        return
    yield Check(name="connection", status="ok", message=f"the {end} accepts these settings")
    yield from sorted(map(_check, findings), key=lambda check: ("fail", "warn", "ok").index(check.status))
    if all(f["severity"] == "INFO" for f in findings):
        yield Check(name="assessment", status="ok", message=f"nothing was found that the {end} lacks")


def _check(finding: Mapping[str, Any]) -> Check:
    return Check(
        name=finding["name"],
        status=_STATUS[finding["severity"]],
        message=f"{finding['description']}: {finding['impact']}" if finding["impact"] else finding["description"],
        fix=finding["fix"],
        hint=finding["suggestion"],
        code=finding["code"],
    )


def _of_tables(context: ServiceContext, config: Mapping[str, Any]) -> Check:
    found = ask(context, config, ["tables"])
    if found.data is None:
        error = found.error or {}
        return Check(
            name="tables",
            status="fail",
            message=error.get("message", "the tables cannot be listed"),
            hint=error.get("hint", ""),
            code=error.get("code"),
        )
    seen = len(found.data)
    if not seen:
        hint = "grant SELECT on tables, as the source's page says"
        return Check(name="tables", status="warn", message="no table is seen", hint=hint)
    return Check(name="tables", status="ok", message=f"{seen:,} table{'s are' if seen > 1 else ' is'} seen")


def _skipped(names: Sequence[str]) -> Iterator[Check]:
    for name in names:
        yield Check(name=name, status="skipped", message="not looked at, since something before it failed")


def _named_apart(checks: Sequence[Check]) -> list[Check]:
    """The checks with a number after a name that another one has."""
    seen: dict[str, int] = {}
    named = []
    for check in checks:
        seen[check.name] = number = seen.get(check.name, 0) + 1
        named.append(check if number == 1 else check.model_copy(update={"name": f"{check.name}_{number}"}))
    return named
