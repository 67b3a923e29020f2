"""Google's clients, with the pipeline's credentials and addresses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.authoring.driver_errors import required_library
from replicator_sdk.errors import ConfigError
from replicator_target_bigquery.api.diagnosis import failed_request, missing_library
from replicator_target_bigquery.config import BigQueryConfig

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_SCOPES: Final = ("https://www.googleapis.com/auth/bigquery", "https://www.googleapis.com/auth/devstorage.read_write")

_PLAIN: Final = "http://"


class Clients:
    """BigQuery's and Cloud Storage's clients. Safe from any thread, as Google's are.

    Raises:
        NeedsUserError: When a library is missing, or there are no credentials.
    """

    def __init__(self, config: BigQueryConfig) -> None:
        with required_library(missing_library("google-cloud-bigquery")):
            from google.cloud import bigquery

            from replicator_target_bigquery.api.session import Session
        credentials = credentials_of(config)
        self.bigquery: Any = bigquery.Client(
            project=config.project,
            credentials=credentials,
            location=config.staging_bucket_location,
            client_options=_options(config.api_endpoint),
            _http=Session(credentials),
        )
        self.storage = storage_client(config, credentials)

    def close(self) -> None:
        """Close their connections."""
        self.bigquery.close()
        self.storage.close()


def storage_client(config: BigQueryConfig, credentials: Credentials | None = None) -> Any:
    """Cloud Storage's client alone, as executors need it; with credentials of its own unless some are given.

    Raises:
        NeedsUserError: When the library is missing, or there are no credentials.
    """
    with required_library(missing_library("google-cloud-storage")):
        from google.cloud import storage  # type: ignore[attr-defined]

        from replicator_target_bigquery.api.session import Session
    credentials = credentials or credentials_of(config)
    return storage.Client(
        project=config.project,
        credentials=credentials,
        client_options=_options(config.storage_endpoint),
        _http=Session(credentials),
    )


def write_client(config: BigQueryConfig) -> Any:
    """The Storage Write API's client; without TLS and credentials for an emulator.

    Raises:
        NeedsUserError: When a library is missing, or there are no credentials.
    """
    with required_library(missing_library("google-cloud-bigquery-storage")):
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
        from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
    return _storage_api(config, BigQueryWriteClient, BigQueryWriteGrpcTransport)


def read_client(config: BigQueryConfig) -> Any:
    """The Storage Read API's client, which is at the same address.

    Raises:
        NeedsUserError: As `write_client`.
    """
    with required_library(missing_library("google-cloud-bigquery-storage")):
        from google.cloud.bigquery_storage_v1.services.big_query_read import BigQueryReadClient
        from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport
    return _storage_api(config, BigQueryReadClient, BigQueryReadGrpcTransport, ("grpc.max_receive_message_length", -1))


def _storage_api(config: BigQueryConfig, client: Any, transport: Any, *options: tuple[str, int]) -> Any:
    """A client at `storageWriteEndpoint`; the options are those of the channel to an emulator, which Google's transport has as well."""
    import grpc

    endpoint = config.storage_write_endpoint
    if endpoint.startswith(_PLAIN):
        channel = grpc.insecure_channel(endpoint.removeprefix(_PLAIN), list(options))
        return client(transport=transport(channel=channel))
    return client(credentials=credentials_of(config), client_options=_options(endpoint))


def _options(endpoint: str) -> Any:
    from google.api_core.client_options import ClientOptions

    return ClientOptions(api_endpoint=endpoint) if endpoint else None


def credentials_of(config: BigQueryConfig) -> Credentials | None:
    """The credentials: those of the key; none for an emulator without TLS, which must not receive any; else the machine's."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import DefaultCredentialsError

    if config.service_account_key is not None:
        return _from_key(config.service_account_key.get_secret_value())
    if config.api_endpoint.startswith(_PLAIN):
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    try:
        found, _ = google.auth.default(scopes=_SCOPES)
    except DefaultCredentialsError as err:
        raise failed_request(err, "looking for application default credentials", "") from err
    return found


def _from_key(text: str) -> Credentials:
    from google.oauth2 import service_account

    try:
        made: Credentials = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
            json.loads(text), scopes=_SCOPES
        )
    except ValueError:
        raise ConfigError(
            "serviceAccountKey is no service account key",
            code="RPL-6519",
            hint="give the JSON text of the key file, best as ${file(/path/of/key.json)}",
            path="stages.plugin.properties.serviceAccountKey",
        ) from None
    return made
