"""Opens containers of Azure, with the credentials that adlfs finds in the environment."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

_CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
_PRINCIPAL: Final = ("tenant_id", "client_id", "client_secret")


def open_azure(rest: str) -> tuple[fs.FileSystem, str]:
    """The file system, and the path in it, of what follows `abfss://`: `container@account.dfs.core.windows.net/path`.

    A key, a signature or a service principal is taken from the variables that adlfs knows, `AZURE_STORAGE_CONNECTION_STRING` where it is of
    this account; without any, Azure's default credential finds one.

    Raises:
        pyarrow.ArrowInvalid: When container and account are not both named.
    """
    authority, _, path = rest.partition("/")
    container, _, host = authority.partition("@")
    account, _, domain = host.partition(".")
    if not (container and account):
        raise pa.ArrowInvalid("the location is to begin with abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/")
    named = dict(part.split("=", 1) for part in os.environ.get(_CONNECTION, "").split(";") if "=" in part)
    options = _by_connection(named) if named.get("AccountName") == account else _by_variables()
    if domain and "blob_storage_authority" not in options:
        suffix = domain.split(".", 1)[-1]  # of the cloud: that of China, or of a government, has another one
        options |= {"blob_storage_authority": f".blob.{suffix}", "dfs_storage_authority": f".dfs.{suffix}"}
    return fs.AzureFileSystem(account, **options), f"{container}/{path}".rstrip("/")


def _by_connection(named: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if key := named.get("AccountKey"):
        options["account_key"] = key
    elif signature := named.get("SharedAccessSignature"):
        options["sas_token"] = signature.removeprefix("?")
    if endpoint := named.get("BlobEndpoint"):
        address = urlsplit(endpoint)
        if not address.netloc.startswith(f"{named['AccountName']}."):  # an emulator, which has the account in the path
            options |= {"blob_storage_authority": address.netloc, "dfs_storage_authority": address.netloc}
            options |= {"blob_storage_scheme": address.scheme, "dfs_storage_scheme": address.scheme}
    return options


def _by_variables() -> dict[str, Any]:
    if key := os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"):
        return {"account_key": key}
    if signature := os.environ.get("AZURE_STORAGE_SAS_TOKEN"):
        return {"sas_token": signature.removeprefix("?")}
    principal = {name: os.environ.get(f"AZURE_STORAGE_{name.upper()}", "") for name in _PRINCIPAL}
    return dict(principal) if all(principal.values()) else {}
