"""Writes the generated pages, and the generated parts of pages, from the code: settings, commands, error codes, states.

    python scripts/reference_docs.py           # rewrite docs/errors/*.md, docs/runbooks/*.md, docs/openapi.json, the marked parts of docs/*.md and ARCHITECTURE.md
    python scripts/reference_docs.py --check   # list the pages that are out of date; exit code 1 when there is one

A part is between `<!-- begin NAME -->` and `<!-- end NAME -->`. Tests compare pages and code (`tests/docs/`).
"""

from __future__ import annotations

import sys

from reference_pages.pages import outdated


def main() -> int:
    """Rewrite the pages that are out of date, or list them."""
    pages = outdated()
    check = "--check" in sys.argv
    for path, text in pages.items():
        print(f"{'out of date' if check else 'written' if text is not None else 'removed'}: {path}")
        if check:
            continue
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    return 1 if pages and check else 0


if __name__ == "__main__":
    sys.exit(main())
