"""The page's modules have right types: their own, the libraries', and those of the REST API."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from replicator_runtime.ui.assets import STATIC
from tests.runtime.ui.node_packages import TYPES, node_packages

OPENAPI = Path(__file__).parents[3] / "docs" / "openapi.json"
_TIMEOUT = 300


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the settings of the check and the types of the REST API."""
    packages, folder = node_packages(), tmp_path_factory.mktemp("types")
    settings = json.loads((TYPES / "tsconfig.json").read_text("utf-8"))
    settings["compilerOptions"]["paths"] = {
        "preact": [f"{packages}/preact/src/index.d.ts"],
        "preact/hooks": [f"{packages}/preact/hooks/src/index.d.ts"],
        "@preact/signals": [f"{packages}/@preact/signals/dist/signals.d.ts"],
        "@preact/signals-core": [f"{packages}/@preact/signals-core/dist/signals-core.d.ts"],
        "htm": [f"{packages}/htm/dist/htm.d.ts"],
        "uplot": [f"{packages}/uplot/dist/uPlot.d.ts"],
        "replicator-api": [f"{folder}/api.d.ts"],
    }
    settings["include"] = [f"{STATIC}/{part}/**/*.js" for part in ("core", "components", "pages", "live")]
    (folder / "tsconfig.json").write_text(json.dumps(settings), "utf-8")
    run(packages, "openapi-typescript", str(OPENAPI), "--output", str(folder / "api.d.ts"))
    return folder


def run(packages: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the packages; fails the test when it fails."""
    command = [str(packages / ".bin" / program), *words]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found


def test_modules_have_right_types(checked: Path) -> None:
    run(node_packages(), "tsc", "-p", str(checked))


def test_every_module_is_checked() -> None:
    modules = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert [path.name for path in modules if not path.read_text("utf-8").startswith("// @ts-check\n")] == []
