"""Imports of OpenLineage's client what a run uses, and no more.

The client's package imports all of its transports, with the HTTP clients that they are made of, and the facets of two specifications: that costs a run
more than all events it sends.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from openlineage.client.transport import TransportFactory

MODULES: Final = {
    "console": "openlineage.client.transport.console.ConsoleTransport",
    "file": "openlineage.client.transport.file.FileTransport",
    "http": "openlineage.client.transport.http.HttpTransport",
    "kafka": "replicator_runtime.lineage.kafka_transport.KafkaTransport",
}
"""Type of a transport → the class that the client has for it, but for Kafka one of ours. The client looks for others."""
NAMES: Final = frozenset(
    {
        *MODULES,
        *("amazon_datazone_api", "async_http", "composite", "datadog", "gcplineage", "msk-iam", "noop", "transform"),
    }
)
"""Types of transports that the client has; another one is the name of a class, with points in it."""
_PACKAGES: Final = ("openlineage.client", "openlineage.client.transport")


def postpone_packages() -> None:
    """Have the modules of the client's packages be imported without what the packages import themselves.

    Whoever asks one of the packages for a name of its own gets it: then the package is executed, in whichever thread that is. Does nothing for a package
    that is imported already.
    """
    for name in _PACKAGES:
        if name in sys.modules or (spec := find_spec(name)) is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        module.__dict__["__getattr__"] = _executing(module, spec)
        sys.modules[name] = module
        parent, _, own = name.rpartition(".")
        setattr(sys.modules[parent], own, module)


def _executing(module: ModuleType, spec: ModuleSpec) -> Any:
    """What gives the names that the module does not have, as it is executed at the first of them."""
    lock, begun = threading.RLock(), threading.Event()

    def of_the_package(name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # what imports and inspection ask every module for
            raise AttributeError(name)
        with lock:
            if not begun.is_set() and spec.loader is not None:
                begun.set()  # what it imports may ask for its names before they are there
                spec.loader.exec_module(module)
                module.__dict__.pop("__getattr__", None)
        if name not in module.__dict__:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return module.__dict__[name]

    return of_the_package


def factory_of(kind: Any) -> TransportFactory:
    """What makes transports of this type, and of no other where the client need not look for it."""
    if kind not in MODULES:
        from openlineage.client.transport import get_default_factory

        shared = get_default_factory()
        shared.register_transport("kafka", MODULES["kafka"])  # a composite one asks it for its parts
        return shared
    from openlineage.client.transport.factory import DefaultTransportFactory

    factory = DefaultTransportFactory()
    factory.register_transport(kind, MODULES[kind])
    return factory
