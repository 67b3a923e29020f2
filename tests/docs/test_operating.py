"""What the operator's page says to install and to fetch is what the code needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replicator_runtime.spark.jars import local_jars
from replicator_target_delta.plugin import DELTA_PACKAGES
from tests.services.artifacts import DELTA

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text("utf-8")


def test_a_host_without_the_internet_is_given_all_jars_of_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(re.findall(r"https://repo1\.maven\.org/\S+\.jar", PAGE)) == {
        f"https://repo1.maven.org/maven2/{jar.path}" for jar in DELTA
    }
    jars = tmp_path / "replicator" / "jars"
    jars.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for jar in DELTA:
        (jars / Path(jar.path).name).touch()
    assert local_jars(DELTA_PACKAGES) is not None


def test_an_installation_from_a_checkout_includes_the_sdk() -> None:
    lines = [line for line in PAGE.splitlines() if "'<checkout>[" in line]
    assert len(lines) >= 2
    assert [line for line in lines if "<checkout>/sdk" not in line] == []
