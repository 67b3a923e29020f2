"""Where a table is stored: `<path>/<schema or database>/<table>`."""

from __future__ import annotations

import re
from pathlib import Path

from replicator_sdk.schema import TableId

# What a path segment cannot hold: separators, what Hadoop's paths and globs give a meaning to, and control characters.
# Not `%XX`: readers that take a path for a URL decode it (deltalake does), so `%` is encoded, too, and `~` as our own mark.
_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\%~:*?"<>|{}\[\]#]')


def path_segment(name: str) -> str:
    """`name` as one folder name; equal only for equal names.

    Spaces, quotes, accents and emoji stay as they are. Names that Delta or a file system treats as its own (a leading
    dot or underscore) get their first character encoded.
    """
    text = _UNSAFE.sub(_encode, name)
    if text[:1] in {".", "_"}:
        text = _encode_text(text[0]) + text[1:]
    return text or "~empty"


def _encode(match: re.Match[str]) -> str:
    return _encode_text(match.group())


def _encode_text(text: str) -> str:
    return "".join(f"~{byte:02X}" for byte in text.encode())


def table_path(base: str, table: TableId) -> str:
    """The table's folder as an absolute path or URI."""
    return f"{absolute(base)}/{path_segment(table.folder)}/{path_segment(table.table)}"


def absolute(base: str) -> str:
    """`base` without a trailing slash; local paths made absolute, `file:` URIs turned into paths."""
    if base.startswith("file:"):
        base = "/" + base.removeprefix("file:").lstrip("/")
    return str(Path(base).expanduser().absolute()) if is_on_disk(base) else base.rstrip("/")


def is_on_disk(path: str) -> bool:
    """Whether `path`, as `absolute` gives it, is a folder of this machine."""
    return "://" not in path


def is_on_object_store(path: str) -> bool:
    """Whether `path` is in a bucket of S3 or of Cloud Storage, or in a container of Azure."""
    return is_on_s3(path) or is_on_azure(path) or is_on_cloud_storage(path)


def is_on_azure(path: str) -> bool:
    """Whether `path` is in a container of Azure."""
    return path.startswith(("abfs://", "abfss://"))


def is_on_cloud_storage(path: str) -> bool:
    """Whether `path` is in a bucket of Google Cloud Storage."""
    return path.startswith("gs://")


def is_on_s3(path: str) -> bool:
    """Whether `path` is in a bucket of S3 or of a store that speaks its protocol."""
    return path.split("://", 1)[0] in {"s3", "s3a", "s3n"} and not is_on_disk(path)
