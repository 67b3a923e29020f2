"""`replicator token`: who may use a service."""

from __future__ import annotations

import enum
import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.commands.service.places import Store
from replicator_runtime.cli.options import AsJson, Debug
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.store.tables import Token

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST_DAYS = 3650

app = typer.Typer(
    help="Tokens for a service: viewers read, operators steer replicators, admins create and delete them.",
    no_args_is_help=True,
)


class RoleName(enum.StrEnum):
    """What a token lets its bearer do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


Role = Annotated[RoleName, typer.Option(help="What its bearer may do.")]
InNamespace = Annotated[
    str, typer.Option(help="The only namespace it is good for; `*` for all, and for what belongs to the whole service.")
]
Expires = Annotated[
    str, typer.Option(metavar="DURATION", help="Good for so long: `30d`, `12h`; until it is revoked when left out.")
]
Label = Annotated[str, typer.Option(help="Who or what it is for, as lists and the audit log show it.")]
TokenId = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, as `replicator token list` shows it.", show_default=False)
]


@app.command("create")
def create(
    role: Role,
    namespace: InNamespace = "*",
    expires: Expires = "",
    label: Label = "",
    store: Store = "",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Create a token and print it: the only time that it is shown. The database keeps a hash of it.

    Works beside a service and before its first start, for whoever may write its database. Example: replicator token create
    --role operator --label deploy --expires 30d
    """
    with Report("token.create", as_json=as_json, debug=debug) as report:
        valid_for = _duration(expires)
        if namespace != "*":
            from replicator_state import check_identifier

            check_identifier(namespace, "namespace")
        with _database(store) as database:
            from replicator_runtime.service.access import roles
            from replicator_runtime.service.access.tokens import create_token

            made = create_token(database, roles.Role(role.value), namespace=namespace, label=label, valid_for=valid_for)
        report.note(f"token {made.token_id}, role {role.value}; it is shown this once: put it in REPLICATOR_TOKEN")
        report.line(made.text)
        report.data = {"id": made.token_id, "token": made.text, "role": role.value, "namespace": namespace}


@app.command("list")
def list_tokens(store: Store = "", as_json: AsJson = False, debug: Debug = False) -> None:
    """List the tokens of a service, never their text: role, namespace, when they were created, and whether they are valid.

    Example: replicator token list
    """
    with Report("token.list", as_json=as_json, debug=debug) as report:
        with _database(store) as database:
            from replicator_runtime.service.access.tokens import list_tokens as stored

            report.data = [_json(token) for token in stored(database)]
        names = ("id", "label", "role", "namespace", "created", "expires", "state")
        report.table(names, [[one[name] for name in names] for one in report.data])
        if not report.data:
            report.note("no token: `replicator token create --role admin` creates one")


@app.command("revoke")
def revoke(token: TokenId, store: Store = "", as_json: AsJson = False, debug: Debug = False) -> None:
    """Have a service refuse a token from now on.

    Example: replicator token revoke 01K6Z0X3V4M2T8Q9R7S5W1Y0AB
    """
    with Report("token.revoke", as_json=as_json, debug=debug) as report:
        from replicator_sdk.errors import NeedsUserError

        with _database(store) as database:
            from replicator_runtime.service.access.tokens import revoke_token

            found = revoke_token(database, token)
        if found is None:
            raise NeedsUserError(
                "there is no token of this id", code="RPL-1587", hint="`replicator token list` shows the tokens"
            )
        report.data = _json(found)
        report.line(f"token {found.token_id} is revoked")


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """The database at a URL, with its tables."""
    from replicator_runtime.service.store.database import Database

    database = Database(url)
    try:
        database.prepare()
        yield database
    finally:
        database.close()


@contextmanager
def _database(store: str) -> Iterator[Database]:
    from replicator_runtime.cli.commands.service.places import require_service, store_of

    require_service()
    with opened(store_of(store)) as database:
        yield database


def _json(token: Token) -> dict[str, Any]:
    from replicator_runtime.service.access.tokens import is_valid

    state = "revoked" if token.revoked else "valid" if is_valid(token) else "expired"
    return {
        "id": token.token_id,
        "label": token.label,
        "role": token.role,
        "namespace": token.namespace,
        "created": token.created.isoformat(timespec="seconds"),
        "expires": token.expires and token.expires.isoformat(timespec="seconds"),
        "state": state,
    }


def _duration(text: str) -> timedelta | None:
    """How long a token is good for; None without an end.

    Raises:
        NeedsUserError: RPL-1588.
    """
    from replicator_sdk.errors import NeedsUserError

    if not text:
        return None
    found = re.fullmatch(r"([1-9]\d{0,6})([mhd])", text)
    duration = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if timedelta() < duration <= timedelta(days=_LONGEST_DAYS):
        return duration
    raise NeedsUserError(
        f"{text[:40]!r} is no time for which a token may be good",
        code="RPL-1588",
        hint="write a number and a unit, as in 30d, 12h or 45m, at most ten years; or leave --expires out",
    )
