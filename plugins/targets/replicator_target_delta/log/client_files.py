"""Files of a table's log on Azure and on Cloud Storage, by fsspec's clients (adlfs, gcsfs), which also keep a replicator's state there.

A commit is one request with a condition: `If-None-Match: *` on Azure, `ifGenerationMatch=0` on Cloud Storage. Hadoop's client of Azure creates
a file and fills it afterwards, so that a process that is killed between leaves a version without content.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_target_delta.location import is_on_azure

_ABFSS_HINT: Final = (
    "use a store with conditional writes, or name a log store of Delta that excludes two writers for the path's scheme in the pipeline's "
    "`spark.conf` (`spark.delta.logStore.abfss.impl`)"
)
_GS_HINT: Final = (
    "use a bucket that is not zonal, and no proxy that drops `ifGenerationMatch`, or name a log store of Delta in the pipeline's "
    "`spark.conf` (`spark.delta.logStore.gs.impl`)"
)
_ANSWER_SECONDS: Final = 120.0
"""For how long gcsfs, which would wait for ever, waits for an answer."""
_FORBIDDEN: Final = frozenset({401, 403})
# Of adlfs, then of gcsfs.
_NO_TOKEN: Final = frozenset(
    {
        "ClientAuthenticationError",
        "CredentialUnavailableError",
        "DefaultCredentialsError",
        "RefreshError",
        "TransportError",
    }
)


class ClientFiles:
    """Files in one folder; see `CommitFiles`."""

    def __init__(self, folder: str) -> None:
        self._folder, self._on_azure = folder, is_on_azure(folder)
        self._files, self._root = _client(folder)

    def create(self, name: str, content: bytes) -> bool:
        """Whether the file was created, as a whole; False when there is one."""
        # gcsfs sends a file of more bytes than that in parts, so that its end is another request.
        whole = {} if self._on_azure else {"chunksize": len(content) + 1}
        with _translated(self._folder):
            try:
                self._files.pipe_file(f"{self._root}/{name}", content, mode="create", **whole)
            except FileExistsError:
                return False
        return True

    def read(self, name: str) -> bytes:
        """The content of a file that exists."""
        with _translated(self._folder):
            self._files.invalidate_cache()
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except (
                FileNotFoundError
            ) as error:  # the store refused it for another reason than that it is there, such as a lease
                raise RetryableError(
                    f"the store refused to create {name} in {self._folder}, which is not there",
                    code="RPL-4401",
                    hint="retried by itself",
                ) from error

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone is no error."""
        with _translated(self._folder), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def unsafe(self, why: str) -> NeedsUserError:
        """The error of a store that cannot refuse a file that exists, as gcsfs cannot in a zonal bucket."""
        return NeedsUserError(
            f"two runs could overwrite each other's commits at {self._folder}: {why}",
            code="RPL-3409",
            hint=_ABFSS_HINT if self._on_azure else _GS_HINT,
        )


def _client(folder: str) -> tuple[Any, str]:
    """The fsspec client, and the folder as it names it."""
    from fsspec.core import url_to_fs

    options = {} if is_on_azure(folder) else {"requests_timeout": _ANSWER_SECONDS}
    try:
        with _translated(folder):
            files, root = url_to_fs(folder, **options)
    except ImportError as error:
        raise NeedsUserError(
            f"two runs could overwrite each other's commits at {folder}: the client that writes them with a condition is missing: {error}",
            code="RPL-3409",
            hint="install it where the replicator runs: `pip install 'replicator[azure]'` for abfss://, `pip install 'replicator[gcs]'` for gs://",
        ) from error
    if is_on_azure(folder):
        _check_account(folder, str(files.service_client.account_name))
    return files, str(root).rstrip("/")


def _check_account(folder: str, found: str) -> None:
    """Refuse a client that writes to another account than the one of the URL."""
    account = folder.split("://", 1)[1].split("/", 1)[0].partition("@")[2].partition(".")[0]
    if found != account:
        raise NeedsUserError(
            f"commits to {folder} would be written to the account {found!r}: AZURE_STORAGE_CONNECTION_STRING names it",
            code="RPL-3416",
            hint="let the variable name the account of `path`, or use AZURE_STORAGE_ACCOUNT_KEY, or a role",
        )


@contextlib.contextmanager
def _translated(folder: str) -> Iterator[None]:
    """What the client raises has no common type, and its text may hold an address with a signature."""
    try:
        yield
    except (ReplicatorError, ImportError, FileExistsError, FileNotFoundError):
        raise
    except Exception as error:
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        name = type(error).__name__
        if isinstance(error, PermissionError) or status in _FORBIDDEN or "Forbidden" in str(error):
            raise NeedsUserError(
                f"the target cannot write {folder}: {name}",
                code="RPL-3403",
                hint="grant write rights on it, renew the credentials if they have expired, or choose another `path`",
            ) from error
        if name in _NO_TOKEN:  # without an answer of the store: a service of identities may be away for a while
            raise RetryableError(
                f"no credentials could be obtained for {folder}: {name}",
                code="RPL-4401",
                hint="retried by itself; renew the credentials if they have expired",
            ) from error
        said = f" with status {status}" if isinstance(status, int) else ""
        raise RetryableError(
            f"the store has failed at {folder}: {name}{said}", code="RPL-4401", hint="retried by itself"
        ) from error
