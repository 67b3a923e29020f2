"""Opens folders by a local path or an fsspec URL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from replicator_sdk.errors import ConfigError
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder


def open_folder(
    base_path: str, parts: tuple[str, ...], options: Mapping[str, Any], *, setting: str = "offsetBasePath"
) -> Folder:
    """A folder below a path; does no I/O.

    Args:
        base_path: A local path, or any fsspec URL.
        parts: The folders below it.
        options: Passed to fsspec.
        setting: What the path is set by, for errors.

    Raises:
        ConfigError: RPL-7102 when the URL cannot be used.
    """
    if "://" not in base_path and "::" not in base_path:
        return LocalFolder(Path(base_path).expanduser().absolute().joinpath(*parts))
    return _open_url(base_path, parts, options, setting)


def _open_url(url: str, parts: tuple[str, ...], options: Mapping[str, Any], setting: str) -> Folder:
    # Most replicators keep their state on a local path, which needs no fsspec.
    from fsspec import available_protocols
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    from replicator_state.storage.remote_folder import RemoteFolder

    shown = _without_credentials(url)
    try:
        fs, root = url_to_fs(url, **options)
    except ImportError as error:
        hint = "install the package that fsspec needs for it: pip install s3fs (s3), gcsfs (gs), adlfs (abfs)"
        raise ConfigError(f"{shown} cannot be opened: {error}", code="RPL-7102", path=setting, hint=hint) from error
    except ValueError as error:
        message, hint = (
            f"{shown} is no URL of a known file system",
            "use a local path or a URL of a file system that fsspec knows",
        )
        if url.partition("://")[0] in available_protocols():
            message = f"{shown} cannot be opened: its file system's package lacks an option, or refuses one"
            hint = "set it in the environment, as AZURE_STORAGE_ACCOUNT_NAME (abfs) or any option as FSSPEC_<SCHEME>_<OPTION>"
        raise ConfigError(message, code="RPL-7102", path=setting, hint=hint) from error
    if isinstance(fs, LocalFileSystem):
        return LocalFolder(Path(root).joinpath(*parts))
    return RemoteFolder(fs, "/".join((root.rstrip("/"), *parts)), "/".join((shown.rstrip("/"), *parts)))


def _without_credentials(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
