"""Macros in the pipeline JSON: values that are stored elsewhere, such as secrets.

A macro may be a whole value or a part of one; its value is not searched for macros again. `$${` writes `${`.

* `${secure(name)}`: the environment variable `REPLICATOR_SECRET_<NAME>` (upper case, other characters as `_`), else the
  file `name` in the folder `$REPLICATOR_SECRETS_DIR` (by default `/run/secrets`), else the keyring's entry `name` of the
  service `replicator`.
* `${env(NAME)}`: an environment variable. One named `REPLICATOR_SECRET_…` is a secret, as by `${secure()}`.
* `${file(path)}`: a file's text without its last line break.

In a process that a service starts, settings are those of people who may use the service and not its host: there `env` gives variables
`REPLICATOR_VAR_…` only, and `secure` and `file` secrets of the pipeline's namespace (`secrets_of_service.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replicator_runtime.config.problem import Problem
from replicator_runtime.secrets_of_service import SERVICE_VARIABLES, SecretPlace, ServiceRules, is_of_a_pod, variable_of
from replicator_runtime.spelling import nearest

UNRESOLVED_MACRO = "RPL-1004"
KEYRING_SERVICE = "replicator"

_MACRO = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
_CALL = re.compile(r"\s*(?P<name>[A-Za-z]\w*)\s*\(\s*(?P<argument>[^()]*?)\s*\)\s*")
_SECRET_VARIABLES = variable_of("")
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class UnresolvedMacroError(Exception):
    """A macro without a value; `message` and `hint` say why and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def resolve(
    value: Any, path: str, *, secrets_allowed: bool = True, rules: ServiceRules | None = None
) -> tuple[Any, list[Problem]]:
    """Replace every macro in `value`, however deep.

    Secrets are registered for redaction before they are returned.

    Args:
        value: A JSON value.
        path: Its JSON path.
        secrets_allowed: Whether `${secure()}`, `${file()}` and secrets by `${env()}` are allowed here; not where values are shown
            to users.
        rules: What may be used; those of this process when left out.

    Returns:
        The value with macros replaced (macros that could not be stay), and a problem for each of those.
    """
    problems: list[Problem] = []
    macros = _Macros(secrets_allowed, rules or ServiceRules.of_this_process())
    return _resolve(value, path, problems, macros), problems


@dataclass(frozen=True, slots=True)
class _Macros:
    """What macros may give: secrets or not, and what a service allows; `rules` is None at a terminal."""

    secrets_allowed: bool
    rules: ServiceRules | None


def _resolve(value: Any, path: str, problems: list[Problem], macros: _Macros) -> Any:
    if isinstance(value, str):
        return _resolve_text(value, path, problems, macros)
    if isinstance(value, Mapping):
        return {k: _resolve(v, f"{path}.{k}" if path else str(k), problems, macros) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve(v, f"{path}[{i}]", problems, macros) for i, v in enumerate(value)]
    return value


def _resolve_text(text: str, path: str, problems: list[Problem], macros: _Macros) -> str:
    def replace(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        try:
            return _replacement_of(match.group("body"), macros)
        except UnresolvedMacroError as error:
            problems.append(Problem(path, error.message, error.hint, UNRESOLVED_MACRO))
            return match.group()

    return _MACRO.sub(replace, text)


def _replacement_of(body: str | None, macros: _Macros) -> str:
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
    is_secret = name != "env" or argument.startswith(_SECRET_VARIABLES)
    if is_secret and not macros.secrets_allowed:
        raise UnresolvedMacroError(
            f"${{{name}({argument})}} is allowed in `notifications[].url` and in a plugin's properties only",
            "this value is shown to users and to Spark; move the secret into a plugin's properties",
        )
    return _MACROS[name](argument, macros.rules)


def _secure(name: str, rules: ServiceRules | None) -> str:
    from replicator_runtime.observability.redaction import register_secret

    if not _SECRET_NAME.fullmatch(name):
        raise UnresolvedMacroError(
            f"${{secure({name})}} is no name of a secret", "use letters, digits, dots, dashes and underscores"
        )
    places = [SecretPlace(variable_of(name), name)] if rules is None else rules.places(name)
    for place in places:
        for found in (os.environ.get(place.variable), _secret_file(place.path), _from_keyring(place.path)):
            if found is not None:
                register_secret(found)
                return found
    of_namespace = f" for the namespace {rules.namespace}" if rules is not None and rules.namespace else ""
    raise UnresolvedMacroError(
        f"the secret of ${{secure({name})}} was not found{of_namespace}", _where_to_store(places, rules)
    )


def _where_to_store(places: Sequence[SecretPlace], rules: ServiceRules | None) -> str:
    if not places:
        return "use it in what belongs to a namespace"
    place = places[0]
    variable = f"set {place.variable}, or " if place.variable else ""
    where = f"{variable}write {_secrets_folder() / place.path}, or run `keyring set {KEYRING_SERVICE} {place.path}`"
    return where if rules is None else f"where the service runs, {where}"


def _secrets_folder() -> Path:
    return Path(os.environ.get("REPLICATOR_SECRETS_DIR") or "/run/secrets")


def _env(name: str, rules: ServiceRules | None) -> str:
    from replicator_runtime.observability.redaction import register_secret

    if rules is not None and not name.startswith(SERVICE_VARIABLES):
        raise UnresolvedMacroError(
            f"${{env({name})}}: a service gives its pipelines variables {SERVICE_VARIABLES}… only",
            f"set {SERVICE_VARIABLES}{name} where the service is started and write that; write ${{secure(name)}} for a secret",
        )
    if name not in os.environ:
        raise UnresolvedMacroError(f"${{env({name})}}: the environment has no {name}", f"set {name}")
    if name.startswith(_SECRET_VARIABLES):
        register_secret(os.environ[name])
    return os.environ[name]


def _file(path: str, rules: ServiceRules | None) -> str:
    from replicator_runtime.observability.redaction import register_secret

    place = Path(path).expanduser()
    if not place.is_absolute():
        raise UnresolvedMacroError(f"${{file({path})}} is not an absolute path", "write the path from / on")
    if rules is not None and not rules.may_read(place):
        raise UnresolvedMacroError(
            f"${{file({path})}}: a service gives its pipelines files below $REPLICATOR_SECRETS_DIR/NAMESPACE only",
            "set that where the service is started, to a folder of the pipelines' secrets alone, and store it there",
        )
    found = _text_of(place, path)
    register_secret(found)
    return found


def _text_of(place: Path, path: str) -> str:
    try:
        return _without_line_break(place.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UnresolvedMacroError(f"${{file({path})}} cannot be read: {reason}", "make it readable") from error


def _secret_file(path: str) -> str | None:
    file = _secrets_folder() / path
    return _text_of(file, str(file)) if file.is_file() and not is_of_a_pod(file.resolve()) else None


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


_MACROS: Mapping[str, Callable[[str, ServiceRules | None], str]] = {"secure": _secure, "env": _env, "file": _file}
