"""The two distributions fit together, and a first installation stays light."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.imports import imports_in
from tests.architecture.packages import ROOT, Package, packages, sources


def _read(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ;]", requirement, maxsplit=1)[0] for requirement in requirements}


# Distributions that share one namespace: the imported module decides which is meant.
_SHARED = {
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "google.type": "googleapis-common-protos",
    "google.cloud.bigquery_storage_v1": "google-cloud-bigquery-storage",
    "google.cloud.storage": "google-cloud-storage",
    "google.cloud": "google-cloud-bigquery",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
}

RUNTIME, SDK = _read("pyproject.toml")["project"], _read("sdk/pyproject.toml")["project"]


def test_both_distributions_carry_one_version() -> None:
    assert RUNTIME["version"] == SDK["version"]


def test_the_runtime_installs_everything_the_sdk_needs() -> None:
    """In a checkout the SDK is on the path without being installed, so its requirements must be ours, too."""
    assert set(SDK["dependencies"]) <= set(RUNTIME["dependencies"])


def test_the_first_installation_is_light() -> None:
    names = _names(RUNTIME["dependencies"])
    assert len(names) <= 11
    assert not names & {"pyspark", "psycopg", "delta-spark", "deltalake", "pandas"}


@cache
def _imported_distributions(package: Package) -> dict[str, str]:
    """Distributions whose packages the package imports at run time, and one place where it does."""
    providers = packages_distributions()
    ours = {package.name for package in packages()}
    found: dict[str, str] = {}
    for source in (source for source in sources() if source.package == package):
        for imported in imports_in(source):
            root = imported.name.partition(".")[0]
            if root not in ours and root not in sys.stdlib_module_names and not imported.typing_only:
                shared = next((d for name, d in _SHARED.items() if f"{imported.name}.".startswith(f"{name}.")), None)
                provider = shared or providers.get(root, [f"no installed package provides {root}"])[0]
                found.setdefault(provider.lower().replace("_", "-"), f"{source.module}:{imported.line}")
    return found


def _declared(*extras: str) -> set[str]:
    optional = RUNTIME["optional-dependencies"]
    return _names(RUNTIME["dependencies"]).union(*(_names(optional[extra]) for extra in extras))


def _extras_of(package: Package) -> list[str]:
    if package.folder.startswith("plugins"):
        name = package.name.rpartition("_")[2]
        return ["spark", *(extra for extra in RUNTIME["optional-dependencies"] if extra.partition("-")[0] == name)]
    return (
        [
            "spark",
            "keyring",
            "notifications",
            "metrics",
            "otlp",
            "lineage",
            "lineage-kafka",
            "service",
            "kubernetes",
            "test",
        ]
        if package.name == "replicator_runtime"
        else ["spark", "test"]
    )


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_everything_a_package_imports_is_required_by_its_distribution_or_extra(package: Package) -> None:
    declared = _declared(*_extras_of(package))
    assert {name: place for name, place in _imported_distributions(package).items() if name not in declared} == {}


def test_everything_required_is_imported_somewhere() -> None:
    needed_by_others = {
        "pandas",  # pyspark's mapInArrow
        "replicator",  # extras that are made of extras
        "s3fs",  # fsspec opens s3:// by it
        "gcsfs",  # and gs:// by this
        "adlfs",  # and abfs:// by this
    }
    imported = {name for package in packages() for name in _imported_distributions(package)}
    extras = set(RUNTIME["optional-dependencies"]) - {"all", "dev", "test"}
    assert _declared(*extras) - imported - needed_by_others == set()


@pytest.mark.parametrize("path", ["pyproject.toml", "sdk/pyproject.toml"])
def test_every_requirement_has_its_reason_beside_it(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    requirements = re.findall(r'^  "[A-Za-z][\w.\[\]-]*[><=][^"]*",.*$', text, re.MULTILINE)
    assert requirements
    assert [line for line in requirements if not re.search(r"#\s+\S+", line)] == []


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_every_package_is_typed_for_its_users(package: Package) -> None:
    assert (package.path / "py.typed").exists()


def test_every_built_in_plugin_enters_by_the_entry_point_of_strangers() -> None:
    declared = RUNTIME["entry-points"]["replicator.plugins"]
    assert set(declared.values()) == {package.name for package in packages() if package.folder.startswith("plugins")}
    installed = {point.name: point.value for point in entry_points(group="replicator.plugins")}
    assert declared.items() <= installed.items()
    extras = set(RUNTIME["optional-dependencies"])
    assert set(declared) <= extras, "every plugin has an extra of its name, which its install hint can name"


def test_released_wheels_share_no_file_and_the_runtime_pins_the_sdk(tmp_path: Path) -> None:
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", *build, str(ROOT), str(ROOT / "sdk")], check=True)
    (runtime,) = tmp_path.glob("replicator-*.whl")
    (sdk,) = tmp_path.glob("replicator_sdk-*.whl")
    files = {wheel: set(zipfile.ZipFile(wheel).namelist()) for wheel in (runtime, sdk)}
    assert files[runtime] & files[sdk] == set()
    for package in packages():
        wheel = sdk if package.name == "replicator_sdk" else runtime
        shipped = {path.relative_to(package.path.parent).as_posix() for path in package.path.rglob("*.py")}
        assert shipped <= files[wheel], package.name
    (metadata,) = (name for name in files[runtime] if name.endswith(".dist-info/METADATA"))
    text = zipfile.ZipFile(runtime).read(metadata).decode()
    assert f"Requires-Dist: replicator-sdk=={SDK['version']}" in text
