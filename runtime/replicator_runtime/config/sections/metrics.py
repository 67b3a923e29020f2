"""Where a run shows its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from replicator_runtime.config.sections.settings import Settings

_LOOPBACK: Final = "127.0.0.1"
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        host: A host's name or address.
        port: 0 for any that is free.
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parsed_address(text: str) -> Address:
    """The address that `HOST:PORT` writes; `:PORT` and `PORT` are of this host's loopback.

    Raises:
        ValueError: When it is none.
    """
    host, _, port = text.strip().rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_host = ("[" in host) == (":" in bare) and not set(bare) & set("[]/@ ")
    if not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT or not is_host:
        raise ValueError("an address is HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464; port 0 is any free one")
    return Address(bare or _LOOPBACK, int(port))


def _address_text(text: str) -> str:
    parsed_address(text)
    return text


def text_file_name(text: str) -> str:
    """The path itself.

    Raises:
        ValueError: When the node exporter would not read it.
    """
    if not text.endswith(".prom"):
        raise ValueError("the node exporter reads files whose names end with .prom only")
    return text


def otlp_endpoint(text: str) -> str:
    """The URL itself, with OTLP's own path for metrics where it has none.

    Raises:
        ValueError: When it is no URL of HTTP, or has a password.
    """
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("a collector is named by a URL, such as http://127.0.0.1:4318")
    if parts.username or parts.password or parts.query:
        raise ValueError(
            "a URL here has no password and no query; set OTEL_EXPORTER_OTLP_HEADERS for what the collector asks for"
        )
    return text if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/metrics"


class MetricsConfig(Settings):
    """Where a run shows its metrics, in Prometheus' form or by OTLP; nowhere when none is given."""

    address: Annotated[str, AfterValidator(_address_text)] | None = Field(
        default=None,
        description="`HOST:PORT` that serves them over HTTP, without TLS and to all who reach it; the loopback where HOST is left out, any free port where PORT is 0."
        " `run --metrics-address` wins over it.",
    )
    table_limit: int = Field(
        default=1000,
        ge=1,
        description="So many tables have series of their own; the others share those of table `__other__`. `run --metrics-table-limit` wins over it.",
    )
    textfile: Annotated[str, AfterValidator(text_file_name)] | None = Field(
        default=None,
        description="A file `*.prom` in the folder that the node exporter's textfile collector reads, replaced every 15 seconds and when the run ends: for runs that are"
        " shorter than the time between two scrapes. `run --metrics-textfile` wins over it.",
    )
    otlp: Annotated[str, AfterValidator(otlp_endpoint)] | None = Field(
        default=None,
        description="The URL of an OpenTelemetry collector that gets them by OTLP over HTTP, every 15 seconds and when the run ends; without a path OTLP's own is taken."
        " Headers come from `OTEL_EXPORTER_OTLP_HEADERS`. `run --metrics-otlp` wins over it.",
    )
