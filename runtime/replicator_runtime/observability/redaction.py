"""No secret leaves the process in a log line, an error text or a Spark setting.

Three filters run one after the other: for values registered as secrets, in any encoding; for values under a key that
is named like a secret; for passwords inside connection strings. Safe from any thread.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import threading
import traceback
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"
SECRET_VARIABLES = "REPLICATOR_SECRET_"  # noqa: S105 - a name
"""What the names of environment variables with secrets begin with."""
SHORTEST = 4
_DEEPEST = 8

_SENSITIVE = (
    r"(?:password|passwd|pwd|passphrase|secret|token|credential|authorization|"
    r"api[_.-]?key|private[_.-]?key|access[_.-]?key|account[_.-]?key|secret[_.-]?key)"
)
_KEY = re.compile(_SENSITIVE, re.IGNORECASE)
_NOT_KEY = re.compile(r"(?:secure|secret|token|password|key)_?(?:name|count|s?_?seconds)$", re.IGNORECASE)
# user:password@ in a URL; greedy up to the last @ before the path, since a raw password may hold one.
_URL = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]*://[^\s:/@'\"]*:)[^\s/'\"]+(?=@)", re.IGNORECASE)
# password=value, in settings strings and URL queries. Values may be quoted, with doubled or escaped quotes inside.
_PAIR = re.compile(
    rf"(?P<head>\b[\w.-]*{_SENSITIVE}[\w.-]*\s*=\s*)(?:'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|[^\s,;&'\")}}]+)",
    re.IGNORECASE,
)
# "password": "value", in JSON and in Python's repr of a dict.
_MEMBER = re.compile(
    rf"(?P<head>(['\"])[\w.-]*{_SENSITIVE}[\w.-]*\2\s*:\s*)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.IGNORECASE
)
_HEADER = re.compile(r"(?P<head>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}")


class Redactor:
    """Masks registered secrets, and what looks like a secret."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._forms: re.Pattern[str] | None = None
        self._lock = threading.Lock()

    def register(self, secret: str) -> bool:
        """Mask `secret` from now on, also URL-encoded, in Base64, or escaped; whether it was long enough for that.

        Shorter than four characters it would mask half of every text and is left alone: the caller should warn.
        """
        parts = {secret, secret.strip()}
        # Of a key file every line is a secret of its own, since libraries quote single lines.
        parts |= {line.strip() for line in secret.splitlines() if len(line.strip()) >= 16}
        with self._lock:
            self._secrets |= {part for part in parts if len(part) >= SHORTEST}
            forms = sorted({form for s in self._secrets for form in _forms(s)}, key=len, reverse=True)
            self._forms = re.compile("|".join(map(_pattern, forms))) if forms else None
        return len(secret.strip()) >= SHORTEST

    def forget(self) -> None:
        """Mask no registered value any more; for tests."""
        with self._lock:
            self._secrets.clear()
            self._forms = None

    def contains_secret(self, text: str) -> bool:
        """Whether a registered secret is in `text` in any form."""
        return self._forms is not None and self._forms.search(text) is not None

    def text(self, text: str) -> str:
        """`text` with every secret replaced by stars."""
        forms = self._forms
        if forms is not None:
            text = forms.sub(MASK, text)
        for pattern in (_URL, _MEMBER, _PAIR, _HEADER):
            text = pattern.sub(rf"\g<head>{MASK}", text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        """`value` in JSON types only and without secrets; masked as a whole when `key` is named like a secret."""
        return self._value(value, key, 0)

    def _value(self, value: Any, key: str, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if key and is_sensitive_key(key):
            return MASK
        if isinstance(value, int | float):
            return value
        if isinstance(value, Mapping) and depth < _DEEPEST:
            return {self.text(str(k)): self._value(v, str(k), depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset) and depth < _DEEPEST:
            return [self._value(v, "", depth + 1) for v in value]
        return self.text(value if isinstance(value, str) else _words(value))


class RedactingFilter(logging.Filter):
    """For handlers of the standard library's logging: message, arguments and traceback without secrets.

    Args:
        redactor: Whose secrets.
        errors: Whether to clean tracebacks too; False for a handler whose formatter does it.
    """

    def __init__(self, redactor: Redactor, *, errors: bool = True) -> None:
        super().__init__()
        self._redactor = redactor
        self._errors = errors

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true: the record is cleaned, never dropped."""
        if not isinstance(record.msg, dict):  # structlog's own records carry their fields and are cleaned there
            record.msg, record.args = self._redactor.text(_message(record)), None
        if self._errors and record.exc_info and record.exc_info[1]:
            record.exc_text = self._redactor.text("".join(traceback.format_exception(record.exc_info[1])).rstrip())
            record.exc_info = None
        if record.stack_info:
            record.stack_info = self._redactor.text(record.stack_info)
        return True


_redactor = Redactor()


def redactor() -> Redactor:
    """The process's redactor."""
    return _redactor


def register_secret(value: str) -> bool:
    """Mask `value` in everything this process says from now on; False when it is too short (under 4) to be masked."""
    return _redactor.register(value)


def redact(text: str) -> str:
    """`text` with every secret replaced by stars."""
    return _redactor.text(text)


def redact_error(error: BaseException, *, with_traceback: bool = False) -> str:
    """The error's text, or its whole traceback with its causes, without secrets."""
    if with_traceback:
        return _redactor.text("".join(traceback.format_exception(error)))
    return _redactor.text(_words(error))


def contains_secret(text: str) -> bool:
    """Whether a registered secret is in `text` in any form."""
    return _redactor.contains_secret(text)


def is_sensitive_key(key: str) -> bool:
    """Whether a value under `key` is masked whatever it is."""
    return _KEY.search(key) is not None and _NOT_KEY.search(key) is None


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001  # a wrong format string in a library must not lose the line
        return f"{record.msg} ({type(error).__name__} while formatting)"


def _words(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001  # a log line must not fail because of what it shows
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _pattern(form: str) -> str:
    """The form as a regular expression; URL encoding may write its digits in either case."""
    return re.sub(r"%([0-9A-F]{2})", r"(?i:%\1)", re.escape(form))


def _forms(secret: str) -> Iterable[str]:
    """The spellings in which a secret may turn up in a text."""
    yield secret
    # How much is encoded differs: Python's three ways, and what browsers leave.
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret), quote(secret, safe="!'()*~"))
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield secret.replace("'", "''")
    yield secret.replace("\\", "\\\\").replace("'", "\\'")
    yield from _base64_forms(secret.encode())


def _base64_forms(secret: bytes) -> Iterable[str]:
    """The secret's characters inside Base64 of any text around it, for the three places it may begin at."""
    for before, mixed in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * before + secret).decode()
        core = text[mixed : (before + len(secret)) * 8 // 6]
        if len(core) >= 6:
            yield core
            yield core.translate(str.maketrans("+/", "-_"))
    yield base64.b64encode(secret).decode()
