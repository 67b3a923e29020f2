"""Every page's links lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "plugins/*/*/README.md", "bench/*.md") for path in _ROOT.glob(pattern)
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_every_page_is_in_the_index() -> None:
    index = (_ROOT / "docs" / "README.md").read_text("utf-8")
    pages = [path.name for path in (_ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if f"]({name})" not in index] == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(_without_code(page)) if not link.startswith(("http:", "https:", "mailto:"))]
    broken = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub names them, and anchors that are written out."""
    text = _without_code(page)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


def _without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
