"""Small installed packages for tests: a module with plugins and the metadata that pip would write."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from textwrap import dedent

VOID_TARGET = """
from replicator_sdk import *

class Consumer(EventConsumer):
    def apply_ddl(self, event): pass
    def apply_dml(self, event): pass
    def stop(self): pass

class Void(DeltaTarget):
    name = "void"
    config_type = PluginConfig
    def create_consumer(self, context): return Consumer()

@hookimpl
def delta_targets(): return [Void]
"""
"""A target, `void`, that takes everything and keeps nothing."""
SHOP_PLUGINS = """
from replicator_sdk import *
from replicator_sdk.event import *


class ShopConfig(PluginConfig):
    path: str
    port: int = 1
    password: Secret | None = None
    retries: int = 0


class ShopOffset(Offset):
    def fields(self):
        return {}

    @classmethod
    def from_fields(cls, fields):
        return cls()

    def __lt__(self, other):
        return False

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __str__(self):
        return "0"


class ShopSource(DeltaSource):
    name = "shop"
    title = "A shop"
    config_type = ShopConfig
    offset_type = ShopOffset

    def configure(self, configurer):
        configurer.require_spark(packages=["org:source:1"], conf={"spark.sql.extensions": "A", "spark.x": "1"})
        if self.config.port == 13:
            configurer.add_failure("port 13 is unlucky", path="port", hint="take another")

    def identity(self):
        return "shop"

    def latest_offset(self):
        return ShopOffset()

    def create_table_registry(self):
        raise NotImplementedError

    def create_table_assessor(self):
        raise NotImplementedError

    def create_reader(self, definition, context, emitter):
        raise NotImplementedError


class ShelfConfig(PluginConfig):
    path: str = "shelf"
    soft_deletes: bool = False
    out_of_range: OutOfRange | None = None


class ShelfTarget(DeltaTarget):
    name = "shelf"
    title = "A shelf"
    config_type = ShelfConfig

    def configure(self, configurer):
        configurer.require_spark(packages=["org:target:1"], conf={"spark.sql.extensions": "B", "spark.x": "1"})

    def create_table_assessor(self):
        raise NotImplementedError

    def create_consumer(self, context):
        raise NotImplementedError


@hookimpl
def delta_sources():
    return [ShopSource]


@hookimpl
def delta_targets():
    return [ShelfTarget]
"""


def install(folder: Path, package: str, code: str, *, entry_point: str = "shop") -> list[metadata.EntryPoint]:
    """Write the package `package` with one module of `code` into `folder`; returns its entry points.

    The caller puts `folder` on `sys.path`.
    """
    module = package.replace("-", "_")
    (folder / f"{module}.py").write_text(dedent(code), "utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[replicator.plugins]\n{entry_point} = {module}\n", "utf-8")
    return list(metadata.PathDistribution(info).entry_points)
