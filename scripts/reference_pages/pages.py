"""Which pages and parts of pages are generated, and which of them differ from the code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from reference_pages.error_codes import ROOT
from reference_pages.error_pages import AREAS, area_page, index_part
from reference_pages.kit_flags import kit_flags_part
from reference_pages.open_api import open_api
from reference_pages.settings_and_commands import commands_part, pipeline_part, plugins_part
from reference_pages.table_states import table_states_part
from replicator_runtime.monitoring.alerts import ALERTS
from replicator_runtime.monitoring.runbooks import index, runbook

PARTS: Mapping[tuple[str, str], Callable[[], str]] = {
    ("errors.md", "errors"): index_part,
    ("configuration.md", "pipeline"): pipeline_part,
    ("configuration.md", "plugins"): plugins_part,
    ("cli.md", "commands"): commands_part,
    ("conformance.md", "flags"): kit_flags_part,
    ("metrics.md", "alerts"): index,
    ("../ARCHITECTURE.md", "table states"): table_states_part,
}

WHOLE_PAGES: Mapping[str, Callable[[], str]] = (
    {f"errors/{name}.md": functools.partial(area_page, name) for name in AREAS}
    | {f"runbooks/{alert.page}": functools.partial(runbook, alert) for alert in ALERTS}
    | {"openapi.json": open_api}
)
_WRITTEN_WHOLE = ("errors", "runbooks")


def rewritten(page: str, part: str, body: str) -> str:
    """`page` with `body` between the marks of `part`.

    Raises:
        ValueError: When the page has no such marks.
    """
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise ValueError(f"the page has no marks of {part}")
    return f"{before}{begin}\n{body.rstrip()}\n{end}{after}"


def outdated() -> dict[Path, str | None]:
    """Pages that differ from the code, with the text they should have; None for a page to remove."""
    docs = ROOT / "docs"
    pages: dict[Path, str] = {docs / name: make() for name, make in WHOLE_PAGES.items()}
    for (name, part), make in PARTS.items():
        path = docs / name
        pages[path] = rewritten(pages.get(path) or path.read_text("utf-8"), part, make())
    differing: dict[Path, str | None] = {path: text for path, text in pages.items() if _text(path) != text}
    found = [path for folder in _WRITTEN_WHOLE for path in (docs / folder).glob("*.md")]
    return differing | {path: None for path in found if path not in pages}


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None
