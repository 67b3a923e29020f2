"""Starts Azurite with a gate before it that lets planned requests fail."""

from __future__ import annotations

import subprocess
import uuid
from functools import partial

from tests.services.artifacts import abfs_jars
from tests.services.azure import setup
from tests.services.http_gate import HttpGate
from tests.services.processes import LOOPBACK, accepts_connections, free_port, scratch_folder, spawn, stop, wait_until

_READY_SECONDS = 180.0
# Azurite's own account; its key is the same everywhere, and published.
ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class AzureServer(HttpGate):
    """Azurite and its gate, running.

    Attributes:
        port: Azurite's own, without the gate.
    """

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        super().__init__(port)
        self.port, self._process = port, process

    @property
    def environment(self) -> dict[str, str]:
        """What makes adlfs in a process use it."""
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": ACCOUNT,
            "AccountKey": _KEY,
            "BlobEndpoint": f"http://{self.address}/{ACCOUNT}",
        }
        return {"AZURE_STORAGE_CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in parts.items())}

    def container(self) -> str:
        """A new container."""
        from azure.storage.blob import BlobServiceClient

        name = f"test-{uuid.uuid4().hex[:12]}"
        with BlobServiceClient.from_connection_string(*self.environment.values()) as client:
            client.create_container(name)
        return name

    def stop(self) -> None:
        """End both."""
        super().stop()
        stop(self._process)


def spark_settings(server: AzureServer) -> dict[str, str]:
    """What Spark needs to open abfs:// on the server, by requests for blobs, with `spark.jars` for ABFS alone."""
    abfs = {
        "abfs.endpoint": server.address,
        f"account.key.{ACCOUNT}.dfs.core.windows.net": _KEY,
        "always.use.https": "false",
        "account.hns.enabled": "false",
        "fns.account.service.type": "BLOB",
    }
    jars = ",".join(map(str, abfs_jars()))
    return {"spark.jars": jars, **{f"spark.hadoop.fs.azure.{name}": value for name, value in abfs.items()}}


def reader(server: AzureServer) -> dict[str, str]:
    """Options with which deltalake reads tables there, past the gate: it holds Python's lock meanwhile."""
    return {
        "azure_storage_account_name": ACCOUNT,
        "azure_storage_account_key": _KEY,
        "azure_storage_endpoint": f"http://{LOOPBACK}:{server.port}/{ACCOUNT}",
        "azure_allow_http": "true",
    }


def start() -> AzureServer:
    """Starts both on free ports; nothing is kept on disk, and nothing is sent to its makers."""
    port, log = free_port(), scratch_folder("azure") / "azurite.log"
    chosen = ("--blobHost", LOOPBACK, "--blobPort", str(port), "--inMemoryPersistence", "--silent")
    command = [*setup.command(), *chosen, "--disableTelemetry", "--skipApiVersionCheck"]
    process = spawn(command, log=log)
    wait_until(partial(accepts_connections, port), process=process, log=log, seconds=_READY_SECONDS)
    return AzureServer(port, process)
