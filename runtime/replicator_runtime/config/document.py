"""Reading a pipeline file as JSON, strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from replicator_sdk.errors import ConfigError

UNREADABLE_FILE = "RPL-1001"
NOT_JSON = "RPL-1002"


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object in the file `path`.

    Raises:
        ConfigError: When the file cannot be read, is not JSON, is no object, or repeats a key.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"{path} cannot be read: {reason}", code=UNREADABLE_FILE, hint="give the path of a pipeline JSON"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", code=NOT_JSON, hint="save it as UTF-8") from error
    return parse_document(text, str(path))


def parse_document(text: str, where: str) -> dict[str, Any]:
    """The JSON object in `text`; `where` names it in errors.

    Raises:
        ConfigError: When it is not JSON, is no object, or repeats a key.
    """
    try:
        document = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{where} is not JSON: {error.msg.lower()} at line {error.lineno}, column {error.colno}",
            code=NOT_JSON,
            hint="fix the JSON there",
        ) from error
    except _Refused as error:
        raise ConfigError(f"{where} is not JSON: {error}", code=NOT_JSON, hint="fix the JSON there") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{where} holds no JSON object", code=NOT_JSON, hint="write a pipeline between { and }")
    return document


class _Refused(Exception):  # noqa: N818 - turned into a ConfigError above
    """JSON that Python would take and that means nothing definite."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise _Refused(f'the key "{key}" is repeated in one object')
        seen[key] = value
    return seen


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is no JSON number")
