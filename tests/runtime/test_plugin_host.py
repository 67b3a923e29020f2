from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from replicator_runtime.plugin_host import PluginHost
from replicator_sdk.errors import ConfigError
from tests.runtime.plugin_packages import SHOP_PLUGINS, install

# Modules stay in `sys.modules`, so that every test needs a package name of its own.
_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def package_name() -> str:
    return f"third-party-{next(_numbers)}"


def test_a_strangers_source_and_target_are_found_by_name(folder: Path) -> None:
    host = PluginHost(install(folder, package_name(), SHOP_PLUGINS))
    assert host.source("shop").__name__ == "ShopSource"
    assert host.target("shelf").__name__ == "ShelfTarget"


def test_the_listing_names_kind_title_and_package(folder: Path) -> None:
    package = package_name()
    plugins = PluginHost(install(folder, package, SHOP_PLUGINS)).listing().plugins
    assert [(p.kind, p.name, p.title, p.package) for p in plugins] == [
        ("source", "shop", "A shop", f"{package} 1.0"),
        ("target", "shelf", "A shelf", f"{package} 1.0"),
    ]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_driver", "ModuleNotFoundError: No module named 'no_such_driver'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit('leave')", "SystemExit: leave"),
        ("x = 1", "has no hookimpl"),
        (
            "from replicator_sdk import hookimpl\n@hookimpl\ndef delta_sources(server): return []",
            "PluginValidationError",
        ),
        ("from replicator_sdk import hookimpl\n@hookimpl\ndef delta_sources(): return [int]", "no DeltaSource class"),
        ("from replicator_sdk import hookimpl\n@hookimpl\ndef delta_targets(): return 1 / 0", "ZeroDivisionError"),
        (
            (
                "from replicator_sdk import *\nclass T(DeltaTarget):\n    name = 't'\n"
                "@hookimpl\ndef delta_targets(): return [T]"
            ),
            "T lacks create_consumer",
        ),
    ],
)
def test_a_broken_package_is_listed_with_its_error_and_hides_no_other(folder: Path, code: str, error: str) -> None:
    good, bad = package_name(), package_name()
    points = [*install(folder, bad, code, entry_point="bad"), *install(folder, good, SHOP_PLUGINS)]
    listing = PluginHost(points).listing()
    assert [p.name for p in listing.plugins] == ["shop", "shelf"]
    assert [(b.entry_point, b.package) for b in listing.broken] == [("bad", f"{bad} 1.0")]
    assert error in listing.broken[0].error
    assert "\n" not in listing.broken[0].error


def test_a_plugin_whose_package_is_broken_is_reported_otherwise_than_one_that_is_not_installed(folder: Path) -> None:
    host = PluginHost(install(folder, package_name(), "import no_such_driver", entry_point="oracle"))
    with pytest.raises(ConfigError, match="no_such_driver") as error:
        host.source("oracle")
    assert error.value.code == "RPL-1103"


def test_two_packages_that_offer_one_plugin_are_both_named(folder: Path) -> None:
    first, second = package_name(), package_name()
    host = PluginHost([*install(folder, first, SHOP_PLUGINS), *install(folder, second, SHOP_PLUGINS)])
    with pytest.raises(ConfigError, match=rf"{first} 1.0 and {second} 1.0") as error:
        host.source("shop")
    assert error.value.code == "RPL-1102"


def test_an_unknown_plugin_names_the_nearest_one_and_pip(folder: Path) -> None:
    host = PluginHost(install(folder, package_name(), SHOP_PLUGINS))
    with pytest.raises(ConfigError) as error:
        host.source("shopp")
    assert error.value.code == "RPL-1101"
    assert 'did you mean "shop"?' in error.value.hint
    assert "pip install" in error.value.hint


def test_a_target_asked_for_as_a_source_says_so(folder: Path) -> None:
    host = PluginHost(install(folder, package_name(), SHOP_PLUGINS))
    with pytest.raises(ConfigError) as error:
        host.source("shelf")
    assert '"shelf" is a target' in error.value.hint


def test_nothing_is_loaded_before_the_first_question(folder: Path) -> None:
    package = package_name()
    (marker := folder / "loaded").unlink(missing_ok=True)
    host = PluginHost(install(folder, package, f"open({str(marker)!r}, 'w').close()"))
    assert not marker.exists()
    host.listing()
    assert marker.exists()


def test_built_in_plugins_are_found_by_entry_point_like_others() -> None:
    listing = PluginHost().listing()
    assert listing.broken == ()
    names = {(p.kind, p.name) for p in listing.plugins}
    assert {("source", "sqlite"), ("source", "postgres"), ("target", "delta")} <= names
    assert {p.package.split()[0] for p in listing.plugins} == {"replicator"}
