"""Serves the page: one HTML document for all its addresses, and its files below an address that holds their checksum.

The browser keeps `/static/CHECKSUM/…` for a year: another release has another checksum. Nothing is loaded from another
host, and the policy in each response has the browser refuse what is not a file of the page.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Response

from replicator_runtime.service.problems import NOT_FOUND, ProblemError

STATIC = Path(__file__).parent / "static"
DOCUMENT = "index.html"
LIBRARIES = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/hooks.mjs",
    "@preact/signals": "vendor/signals.mjs",
    "@preact/signals-core": "vendor/signals-core.mjs",
    "htm": "vendor/htm.mjs",
    "uplot": "vendor/uPlot.esm.js",
}
"""Where the browser finds what modules import by name; the files are the published ones, byte for byte."""
ADDRESSES = ("/", "/ns/{rest:path}", "/plugins", "/plugins/{rest:path}", "/settings", "/settings/{rest:path}")
"""The page's own addresses. The router of the page (`static/core/router.js`) decides what each shows."""
_KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_SERVED = (*_KINDS, ".txt", ".json", ".png", ".woff2")
_A_YEAR = "public, max-age=31536000, immutable"
_WORTH_PACKING = 512
router = APIRouter(include_in_schema=False)
Accepted = Annotated[str, Header(alias="accept-encoding")]
Known = Annotated[str, Header(alias="if-none-match")]


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent.

    Attributes:
        content: Its bytes.
        packed: The same by gzip; None where that saves nothing.
        kind: Its media type.
        etag: Of its content.
    """

    content: bytes
    packed: bytes | None
    kind: str
    etag: str


@dataclass(frozen=True, slots=True)
class Page:
    """All files of the page, read once.

    Attributes:
        checksum: Of all of them.
        assets: By path below `static/`.
        document: The HTML document.
        policy: The value of `Content-Security-Policy`.
    """

    checksum: str
    assets: dict[str, Asset]
    document: Asset
    policy: str


def asset(content: bytes, name: str) -> Asset:
    """A file as it is sent."""
    packed = gzip.compress(content, mtime=0) if len(content) > _WORTH_PACKING else None
    kind = _KINDS.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    return Asset(content, packed, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def page() -> Page:
    """The page of this installation."""
    files = {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in _SERVED and path.is_file()
    }
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    checksum = digest.hexdigest()[:20]
    base = f"/static/{checksum}/"
    names = json.dumps({"imports": {name: base + path for name, path in LIBRARIES.items()}})
    return Page(
        checksum,
        {name: asset(content, name) for name, content in files.items()},
        asset(_document(base, names, list(files)).encode(), DOCUMENT),
        _policy(names),
    )


def _document(base: str, names: str, files: list[str]) -> str:
    """The HTML document; what is loaded at first is named in it, so that the browser asks for all of it at once."""
    first = [path for path in files if path.startswith(("core/", "components/")) and path.endswith(".js")]
    first += [path for name, path in LIBRARIES.items() if name != "uplot"]
    styles = [path for path in files if path.startswith("styles/")]
    return (
        (STATIC / DOCUMENT)
        .read_text("utf-8")
        .replace("{{styles}}", "\n".join(f'  <link rel="stylesheet" href="{html.escape(base + s)}">' for s in styles))
        .replace(
            "{{modules}}", "\n".join(f'  <link rel="modulepreload" href="{html.escape(base + m)}">' for m in first)
        )
        .replace("{{names}}", names)
        .replace("{{base}}", base)
    )


def _policy(names: str) -> str:
    """What the browser may load and run: files of this service, and the one inline script that says where they are."""
    digest = base64.b64encode(hashlib.sha256(names.encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{digest}'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "font-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _respond(found: Asset, accepted: str, known: str, headers: dict[str, str]) -> Response:
    headers |= {
        "ETag": found.etag,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Content-Security-Policy": page().policy,
    }
    if found.etag in [tag.strip().removeprefix("W/") for tag in known.split(",")]:
        return Response(status_code=304, headers=headers)
    if found.packed is not None and "gzip" in accepted:
        return Response(found.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=found.kind)
    return Response(found.content, headers=headers, media_type=found.kind)


def document(accepted: Accepted = "", known: Known = "") -> Response:
    """The page's document, the same at each of its addresses."""
    return _respond(page().document, accepted, known, {"Cache-Control": "no-cache"})


for _address in ADDRESSES:
    router.add_api_route(_address, document, methods=["GET", "HEAD"])


@router.get("/favicon.ico")
def icon(accepted: Accepted = "", known: Known = "") -> Response:
    """The page's icon, where a browser looks for it unasked."""
    return _respond(page().assets["icon.svg"], accepted, known, {"Cache-Control": "no-cache"})


@router.get("/static/{checksum}/{name:path}")
def static(checksum: str, name: str, accepted: Accepted = "", known: Known = "") -> Response:
    """A file of the page.

    Raises:
        ProblemError: 404 RPL-1501 for a file that does not exist, or of another release.
    """
    found = page().assets.get(name) if checksum == page().checksum else None
    if found is None:
        raise ProblemError(404, NOT_FOUND, "the page has no such file", hint="reload the page")
    return _respond(found, accepted, known, {"Cache-Control": _A_YEAR})
