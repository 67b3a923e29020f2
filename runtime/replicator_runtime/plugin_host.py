"""The plugin host: finds sources and targets in installed packages, built-in and third-party alike.

A package names a module in the entry-point group `replicator.plugins`; its `hookimpl` functions offer plugin classes.
A package that cannot be loaded is listed with its error and does not affect others.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Literal

import pluggy

from replicator_runtime.spelling import did_you_mean
from replicator_sdk.config import PluginConfig
from replicator_sdk.discovery import hookspec
from replicator_sdk.errors import ConfigError
from replicator_sdk.offset import Offset
from replicator_sdk.source import DeltaSource
from replicator_sdk.target import DeltaTarget

UNKNOWN_PLUGIN = "RPL-1101"
PLUGIN_TWICE = "RPL-1102"
BROKEN_PLUGIN = "RPL-1103"

Kind = Literal["source", "target"]
PluginClass = type[DeltaSource] | type[DeltaTarget]


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin a pipeline may name.

    Attributes:
        name: Its name in the pipeline JSON.
        kind: Source or target.
        title: One line for people.
        package: The distribution that offers it, with its version.
        plugin: The class.
    """

    name: str
    kind: Kind
    title: str
    package: str
    plugin: PluginClass


@dataclass(frozen=True, slots=True)
class BrokenPackage:
    """An entry point that offers nothing, and why.

    Attributes:
        entry_point: Its name in the group.
        package: The distribution, with its version.
        error: What happened, in one line.
    """

    entry_point: str
    package: str
    error: str


@dataclass(frozen=True, slots=True)
class PluginListing:
    """Everything installed, sorted by kind and name, and every package that is broken."""

    plugins: tuple[InstalledPlugin, ...]
    broken: tuple[BrokenPackage, ...]


def documentation(plugin: InstalledPlugin) -> str:
    """What a plugin's package says of it to users, in Markdown: its `documentation.md` or `README.md`, else the class's docstring.

    The built-in packages get theirs from `docs/` when they are built; in a checkout it is read there.
    """
    package = sys.modules[plugin.plugin.__module__.partition(".")[0]]
    if not hasattr(package, "__path__"):  # a module alone
        return inspect.cleandoc(plugin.plugin.__doc__ or "")
    folder = Path(str(resources.files(package)))
    page = f"docs/{plugin.kind}-{plugin.name}.md"
    for file in (folder / "documentation.md", *(parent / page for parent in folder.parents[1:3]), folder / "README.md"):
        if file.is_file():
            return file.read_text("utf-8")
    return inspect.cleandoc(plugin.plugin.__doc__ or "")


class PluginHost:
    """Looks plugins up by name. Loads packages at the first question, each once; safe to make at import time.

    Args:
        entry_points: Where to look; the installed packages' when left out.
    """

    def __init__(self, entry_points: Iterable[metadata.EntryPoint] | None = None) -> None:
        self._entry_points = entry_points
        self._loaded: PluginListing | None = None

    def source(self, name: str) -> type[DeltaSource]:
        """The source class named `name`.

        Raises:
            ConfigError: When no package offers it, two do, or the one that should is broken.
        """
        found = self._find("source", name)
        assert issubclass(found, DeltaSource)
        return found

    def target(self, name: str) -> type[DeltaTarget]:
        """The target class named `name`.

        Raises:
            ConfigError: When no package offers it, two do, or the one that should is broken.
        """
        found = self._find("target", name)
        assert issubclass(found, DeltaTarget)
        return found

    def listing(self) -> PluginListing:
        """All plugins and all broken packages; never raises for a broken one."""
        if self._loaded is None:
            points = self._entry_points
            self._loaded = _load(metadata.entry_points(group=hookspec.ENTRY_POINT_GROUP) if points is None else points)
        return self._loaded

    def _find(self, kind: Kind, name: str) -> PluginClass:
        listing = self.listing()
        offers = [p for p in listing.plugins if p.kind == kind and p.name == name]
        if len(offers) == 1:
            return offers[0].plugin
        if offers:
            packages = " and ".join(p.package for p in offers)
            raise ConfigError(
                f'{packages} both offer a {kind} "{name}"', code=PLUGIN_TWICE, hint="uninstall one of them with pip"
            )
        for broken in listing.broken:
            if broken.entry_point == name:
                raise ConfigError(
                    f'the {kind} "{name}" cannot be loaded from {broken.package}: {broken.error}',
                    code=BROKEN_PLUGIN,
                    hint=f"install or upgrade {broken.package.split()[0]} with pip",
                )
        raise ConfigError(f'no {kind} is named "{name}"', code=UNKNOWN_PLUGIN, hint=_pip_hint(listing, kind, name))


def _pip_hint(listing: PluginListing, kind: Kind, name: str) -> str:
    names = [p.name for p in listing.plugins if p.kind == kind]
    other = [p for p in listing.plugins if p.kind != kind and p.name == name]
    if other:
        return f'"{name}" is a {other[0].kind}; change the stage\'s type'
    near = did_you_mean(name, names) or f"no {kind} is installed."
    return f"{near} Otherwise `pip install` the package that offers it; `replicator plugins` lists what is installed"


def _load(entry_points: Iterable[metadata.EntryPoint]) -> PluginListing:
    manager = pluggy.PluginManager(hookspec.PROJECT)
    manager.add_hookspecs(hookspec)
    plugins: list[InstalledPlugin] = []
    broken: list[BrokenPackage] = []
    for point in sorted(entry_points, key=lambda p: p.name):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
        try:
            plugins += _offers(manager, point, package)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a failing third-party import must not affect other plugins
            broken.append(BrokenPackage(point.name, package, _one_line(error)))
    return PluginListing(tuple(sorted(plugins, key=lambda p: (p.kind, p.name, p.package))), tuple(broken))


def _offers(manager: pluggy.PluginManager, point: metadata.EntryPoint, package: str) -> list[InstalledPlugin]:
    """Load one entry point and ask it, and only it, for its plugins."""
    module = point.load()
    manager.register(module, name=f"{package}:{point.name}")
    others = [p for p in manager.get_plugins() if p is not module]
    sources = _ask(manager, "delta_sources", others)
    targets = _ask(manager, "delta_targets", others)
    if not sources and not targets:
        raise TypeError(f"{point.value} has no hookimpl that offers a source or a target")
    return [
        *(_checked("source", cls, DeltaSource, package) for cls in sources),
        *(_checked("target", cls, DeltaTarget, package) for cls in targets),
    ]


def _ask(manager: pluggy.PluginManager, hook: str, others: Sequence[Any]) -> list[Any]:
    answers: list[Iterable[Any]] = manager.subset_hook_caller(hook, remove_plugins=others)()
    return [cls for answer in answers for cls in answer]


def _checked(kind: Kind, cls: Any, root: PluginClass, package: str) -> InstalledPlugin:
    """The plugin `cls`, once it keeps what the contract asks of a class."""
    if not (isinstance(cls, type) and issubclass(cls, root)):
        raise TypeError(f"{cls!r} is offered as a {kind} and is no {root.__name__} class")
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise TypeError(f"{cls.__qualname__} lacks {missing}")
    config_type = getattr(cls, "config_type", None)
    if not (isinstance(config_type, type) and issubclass(config_type, PluginConfig)):
        raise TypeError(f"{cls.__qualname__}.config_type is no PluginConfig class")
    offset_type = getattr(cls, "offset_type", None)
    if kind == "source" and not (isinstance(offset_type, type) and issubclass(offset_type, Offset)):
        raise TypeError(f"{cls.__qualname__}.offset_type is no Offset class")
    name = getattr(cls, "name", None)
    if not (isinstance(name, str) and name.strip()):
        raise TypeError(f"{cls.__qualname__}.name is no text")
    return InstalledPlugin(name, kind, getattr(cls, "title", ""), package, cls)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
