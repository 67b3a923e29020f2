"""The real BigQuery, for whoever has a project and a bucket: where it is, and a reader that shares no code with the target.

Everything comes from the environment, which `make test-bigquery` fills. With an address in REPLICATOR_BIGQUERY_API_ENDPOINT the
same code runs before an emulator, so that it is known to work up to the credentials.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import requests

_PREFIX: Final = "REPLICATOR_BIGQUERY_"
_REST: Final = "https://bigquery.googleapis.com"
_STORAGE: Final = "https://storage.googleapis.com"
_SCOPES: Final = ("https://www.googleapis.com/auth/bigquery", "https://www.googleapis.com/auth/devstorage.read_write")
_SECONDS: Final = 300
_DAY_MS: Final = 86_400_000
WANTED: Final = bool(os.environ.get(f"{_PREFIX}PROJECT") and os.environ.get(f"{_PREFIX}BUCKET"))
"""Whether the environment names a project and a bucket; nothing asks the real service otherwise."""


@dataclass(frozen=True)
class Service:
    """A project and a bucket that tests may use.

    Attributes:
        project: Runs and pays for jobs, and gets the datasets.
        bucket: Through which rows are loaded.
        location: Where the bucket is.
        prefix: What the names of the tests' datasets begin with.
        key: The JSON text of a service account's key; empty for application default credentials.
        mode: The target's mode.
        api_endpoint: An emulator's address; empty for the real one.
        storage_endpoint: Likewise.
        write_endpoint: Likewise, of the Storage Write API.
    """

    project: str
    bucket: str
    location: str
    prefix: str
    key: str
    mode: str
    api_endpoint: str
    storage_endpoint: str
    write_endpoint: str = ""

    @classmethod
    def of_environment(cls) -> Service:
        """What the environment says."""

        def setting(name: str, otherwise: str = "") -> str:
            return os.environ.get(_PREFIX + name) or otherwise

        key = Path(setting("KEY")).read_text(encoding="utf-8") if setting("KEY") else ""
        return cls(
            setting("PROJECT"), setting("BUCKET"), setting("LOCATION", "US"), setting("DATASET_PREFIX", "replicator_test_"), key,
            setting("MODE", "batch"), setting("API_ENDPOINT"), setting("STORAGE_ENDPOINT"), setting("WRITE_ENDPOINT"),
        )  # fmt: skip

    @property
    def is_emulated(self) -> bool:
        """Whether it is not the real one."""
        return self.api_endpoint.startswith("http://")

    def settings(self, dataset: str) -> dict[str, Any]:
        """The target's settings for a dataset."""
        return {
            "project": self.project,
            "dataset_name": dataset,
            "staging_bucket": self.bucket,
            "staging_bucket_location": self.location,
            "service_account_key": self.key or None,
            "mode": self.mode,
            "load_interval": 0,
            "schema_changes": "rebuild",
            "arrays": "wrapped",
            "api_endpoint": self.api_endpoint,
            "storage_endpoint": self.storage_endpoint,
            "storage_write_endpoint": self.write_endpoint,
        }

    def rows(self, sql: str) -> list[list[object]]:
        """The rows of a query in BigQuery's own JSON."""
        body: dict[str, Any] = {
            "query": sql, "useLegacySql": False, "maxResults": 100_000, "timeoutMs": 60_000,
            "location": self.location, "formatOptions": {"useInt64Timestamp": True},
        }  # fmt: skip
        answer = self._call("POST", f"{self._rest}/projects/{self.project}/queries", json=body)
        while not answer.get("jobComplete", True):
            job = answer["jobReference"]["jobId"]
            facts = {"location": self.location, "maxResults": 100_000, "formatOptions.useInt64Timestamp": "true"}
            answer = self._call("GET", f"{self._rest}/projects/{self.project}/queries/{job}", params=facts)
        return [[cell["v"] for cell in row["f"]] for row in answer.get("rows", ())]

    def make(self, dataset: str) -> None:
        """A dataset whose tables go by themselves after a day, should the tests be killed."""
        body = {
            "datasetReference": {"projectId": self.project, "datasetId": dataset},
            "location": self.location,
            "defaultTableExpirationMs": str(_DAY_MS),
            "labels": {"made_by": "replicator_tests"},
        }
        self._call("POST", f"{self._rest}/projects/{self.project}/datasets", json=body)

    def datasets(self) -> list[str]:
        """The tests' datasets that are there."""
        answer = self._call("GET", f"{self._rest}/projects/{self.project}/datasets", params={"maxResults": 1000})
        names = (found["datasetReference"]["datasetId"] for found in answer.get("datasets", ()))
        return [name for name in names if name.startswith(self.prefix)]

    def remove(self, dataset: str) -> None:
        """Remove a dataset of ours with all in it, and what was left of it in the bucket."""
        assert dataset.startswith(self.prefix)
        where = f"{self._rest}/projects/{self.project}/datasets/{dataset}"
        self._call("DELETE", where, params={"deleteContents": "true"}, missing_is_fine=True)
        for name in self.files(dataset):
            where = f"{self._storage}/b/{self.bucket}/o/{quote(name, safe='')}"
            self._call("DELETE", where, missing_is_fine=True)

    def files(self, dataset: str) -> list[str]:
        """The files of a dataset's loads in the bucket."""
        answer = self._call("GET", f"{self._storage}/b/{self.bucket}/o", params={"prefix": "replicator/"})
        return [found["name"] for found in answer.get("items", ()) if f"/{dataset}/" in found["name"]]

    @property
    def _rest(self) -> str:
        return f"{self.api_endpoint or _REST}/bigquery/v2"

    @property
    def _storage(self) -> str:
        return f"{self.storage_endpoint or _STORAGE}/storage/v1"

    @cached_property
    def _session(self) -> requests.Session:
        """One that knows the credentials; a plain one before an emulator."""
        if self.is_emulated:
            return requests.Session()
        import json

        import google.auth
        from google.auth.transport.requests import AuthorizedSession
        from google.oauth2 import service_account

        if self.key:
            credentials: Any = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
                json.loads(self.key), scopes=_SCOPES
            )
        else:
            credentials, _ = google.auth.default(scopes=_SCOPES)
        made: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
        return made

    def _call(self, method: str, url: str, *, missing_is_fine: bool = False, **body: Any) -> Any:
        answer = self._session.request(method, url, timeout=_SECONDS, **body)
        if missing_is_fine and answer.status_code == requests.codes.not_found:
            return {}
        answer.raise_for_status()
        return answer.json() if answer.content else {}
