"""Macros in the pipeline JSON: values that are stored elsewhere, such as secrets.

A macro may be a whole value or a part of one; its value is not searched for macros again. `$${` writes `${`.

* `${secure(name)}`: the environment variable `REPLICATOR_SECRET_<NAME>` (upper case, other characters as `_`), else the
  file `name` in the folder `$REPLICATOR_SECRETS_DIR` (by default `/run/secrets`), else the keyring's entry `name` of the
  service `replicator`.
* `${env(NAME)}`: an environment variable.
* `${file(path)}`: a file's text without its last line break.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from replicator_runtime.config.problem import Problem
from replicator_runtime.spelling import nearest

UNRESOLVED_MACRO = "RPL-1004"
KEYRING_SERVICE = "replicator"

_MACRO = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
_CALL = re.compile(r"\s*(?P<name>[A-Za-z]\w*)\s*\(\s*(?P<argument>[^()]*?)\s*\)\s*")
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class UnresolvedMacroError(Exception):
    """A macro without a value; `message` and `hint` say why and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def resolve(value: Any, path: str, *, secrets_allowed: bool = True) -> tuple[Any, list[Problem]]:
    """Replace every macro in `value`, however deep.

    Secrets are registered for redaction before they are returned.

    Args:
        value: A JSON value.
        path: Its JSON path.
        secrets_allowed: Whether `${secure()}` and `${file()}` are allowed here; not where values are shown to users.

    Returns:
        The value with macros replaced (macros that could not be stay), and a problem for each of those.
    """
    problems: list[Problem] = []
    return _resolve(value, path, problems, secrets_allowed), problems


def _resolve(value: Any, path: str, problems: list[Problem], secrets_allowed: bool) -> Any:
    if isinstance(value, str):
        return _resolve_text(value, path, problems, secrets_allowed)
    if isinstance(value, Mapping):
        return {k: _resolve(v, f"{path}.{k}" if path else str(k), problems, secrets_allowed) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve(v, f"{path}[{i}]", problems, secrets_allowed) for i, v in enumerate(value)]
    return value


def _resolve_text(text: str, path: str, problems: list[Problem], secrets_allowed: bool) -> str:
    def replace(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        try:
            return _replacement_of(match.group("body"), secrets_allowed)
        except UnresolvedMacroError as error:
            problems.append(Problem(path, error.message, error.hint, UNRESOLVED_MACRO))
            return match.group()

    return _MACRO.sub(replace, text)


def _replacement_of(body: str | None, secrets_allowed: bool) -> str:
    call = _CALL.fullmatch(body or "")
    if call is None:
        raise UnresolvedMacroError(
            "a macro that cannot be read",
            "write ${secure(name)}, ${env(NAME)} or ${file(path)}; write $${ for a plain ${",
        )
    name, argument = call["name"], call["argument"]
    if name not in _MACROS:
        near = nearest(name, _MACROS) or "secure"
        raise UnresolvedMacroError(f"unknown macro ${{{name}(…)}}", f"did you mean ${{{near}({argument})}}?")
    if name != "env" and not secrets_allowed:
        raise UnresolvedMacroError(
            f"${{{name}({argument})}} is allowed in `notifications[].url` and in a plugin's properties only",
            "this value is shown to users and to Spark; move the secret into a plugin's properties",
        )
    return _MACROS[name](argument)


def _secure(name: str) -> str:
    from replicator_runtime.observability.redaction import SECRET_VARIABLES, register_secret

    if not _SECRET_NAME.fullmatch(name):
        raise UnresolvedMacroError(
            f"${{secure({name})}} is no name of a secret", "use letters, digits, dots, dashes and underscores"
        )
    variable = SECRET_VARIABLES + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
    file = Path(os.environ.get("REPLICATOR_SECRETS_DIR") or "/run/secrets") / name
    for found in (os.environ.get(variable), _secret_file(file), _from_keyring(name)):
        if found is not None:
            register_secret(found)
            return found
    raise UnresolvedMacroError(
        f"the secret of ${{secure({name})}} was not found",
        f"set {variable}, or write {file}, or run `keyring set {KEYRING_SERVICE} {name}`",
    )


def _env(name: str) -> str:
    if name not in os.environ:
        raise UnresolvedMacroError(f"${{env({name})}}: the environment has no {name}", f"set {name}")
    return os.environ[name]


def _file(path: str) -> str:
    place = Path(path).expanduser()
    if not place.is_absolute():
        raise UnresolvedMacroError(f"${{file({path})}} is not an absolute path", "write the path from / on")
    try:
        return _without_line_break(place.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UnresolvedMacroError(f"${{file({path})}} cannot be read: {reason}", "make it readable") from error


def _secret_file(file: Path) -> str | None:
    return _file(str(file)) if file.is_file() else None


def _from_keyring(name: str) -> str | None:
    """The desktop key store's entry; None where there is no key store or no entry."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        found: str | None = keyring.get_password(KEYRING_SERVICE, name)
    except KeyringError:
        return None  # no key store on this machine
    return found


def _without_line_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


_MACROS: Mapping[str, Callable[[str], str]] = {"secure": _secure, "env": _env, "file": _file}
