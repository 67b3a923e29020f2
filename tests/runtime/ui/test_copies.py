"""Whatever the page sends to change or to ask something can be copied as a request."""

from __future__ import annotations

import re

from replicator_runtime.ui.assets import STATIC

WRITES = re.compile(r"""request\(\s*(?:"(?:POST|PUT|DELETE|PATCH)"|method)""")
COPIES = re.compile(r"CopyAs|curl\(|\bsame\b|words: wordsOf")
BESIDE = {
    "core/session.js": "signing in and out: the token is the command line's, and never in a request that is copied",
    "core/api.js": "sends what the others ask",
    "pages/create/draft_store.js": "saves as one types; the summary copies what the draft becomes",
    "pages/create/validation.js": "checks as one types; the import and the assessment copy the check",
    "pages/create/source_tables.js": "the step of the tables copies it",
    "pages/drafts/name_dialog.js": "gets its copies from who opens it",
}


def test_every_module_that_sends_a_request_lets_it_be_copied() -> None:
    senders = {
        str(path.relative_to(STATIC)): path.read_text("utf-8")
        for path in STATIC.rglob("*.js")
        if "vendor" not in path.parts and WRITES.search(path.read_text("utf-8"))
    }
    assert len(senders) > 15
    assert [name for name, text in senders.items() if not COPIES.search(text) and name not in BESIDE] == []
