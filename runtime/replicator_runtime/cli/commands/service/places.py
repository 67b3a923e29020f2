"""Where a service keeps what it needs, from what its commands were given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from replicator_sdk.errors import ConfigError

NOT_INSTALLED: Final = "RPL-1580"
WRONG_STORE: Final = "RPL-1586"
STORE_VARIABLE: Final = "REPLICATOR_STORE"
_SQLITE: Final = "sqlite:///"

Store = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="The service's database: `sqlite:///PATH`, or one of Postgres, in which `${secure(NAME)}` is replaced. Left out: "
        "`$REPLICATOR_STORE`, else `service.db` in `$XDG_STATE_HOME/replicator-service`.",
    ),
]


def require_service() -> None:
    """Make sure that the libraries of the service are installed.

    Raises:
        NeedsUserError: RPL-1580.
    """
    try:
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        from replicator_sdk.errors import NeedsUserError

        raise NeedsUserError(
            f"this needs the libraries of the service, and {error.name or 'one of them'} is not installed",
            code=NOT_INSTALLED,
            hint="pip install 'replicator[service]'",
        ) from error


def store_of(given: str) -> str:
    """The URL of the database. The folder of a SQLite file is created for this user alone, and so is the file.

    Args:
        given: What the command was given; empty for the default.

    Raises:
        ConfigError: RPL-1586 for what is no such URL, RPL-1004 for a macro without a value.
    """
    from replicator_runtime.config.default_paths import default_service_folder
    from replicator_runtime.config.macros import resolve
    from replicator_sdk.errors import ConfigError

    text = given or os.environ.get(STORE_VARIABLE, "") or f"{_SQLITE}{default_service_folder() / 'service.db'}"
    found, problems = resolve(text, "store")
    url = str(found)
    for problem in problems:
        raise ConfigError(problem.message, code=problem.code, hint=problem.hint, path="--store")
    file = sqlite_file(url)
    if file is not None:
        return f"{_SQLITE}{_private(file)}"
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"postgresql", "postgresql+psycopg"}:
        raise _wrong_store()
    return f"postgresql+psycopg://{rest}"  # the driver of the extra `postgres`


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite URL; None for other databases.

    Raises:
        ConfigError: RPL-1586 for a database in memory, which other processes and threads do not have.
    """
    if not url.startswith("sqlite:"):
        return None
    path = url.removeprefix(_SQLITE)
    if path == url or not path or path.startswith((":memory:", "?")):
        raise _wrong_store()
    return Path(path).expanduser().absolute()


def work_folder_of(given: Path | None, store: str) -> Path:
    """Where the service keeps pipelines' files and the output of processes: beside its SQLite file, else below the state home.

    Args:
        given: What the command was given.
        store: The URL of the database.
    """
    from replicator_runtime.config.default_paths import default_service_folder

    file = sqlite_file(store)
    folder = given or (default_service_folder() / "work" if file is None else file.with_name(f"{file.stem}-work"))
    folder = folder.expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def _private(file: Path) -> Path:
    from replicator_sdk.errors import ConfigError

    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ConfigError(
            f"the service's database {file} cannot be opened: {error.strerror}",
            code=WRONG_STORE,
            hint="give another --store, or let this user write there",
        ) from None
    return file


def _wrong_store() -> ConfigError:
    from replicator_sdk.errors import ConfigError

    return ConfigError(
        "the store is no URL of a database that a service can use",
        code=WRONG_STORE,
        hint="give it as sqlite:////var/lib/replicator/service.db or postgresql://USER:${secure(NAME)}@HOST/DATABASE",
    )
