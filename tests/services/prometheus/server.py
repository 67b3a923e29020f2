"""A private Prometheus that asks one or more programs for their metrics each second and evaluates rules as often."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.services.processes import LOOPBACK, free_port, spawn, stop, tail, wait_until
from tests.services.prometheus.programs import program

_CONFIGURATION = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: replicator
    static_configs: [{{targets: [{targets}]}}]
"""


class Prometheus:
    """One server on a loopback port; it is a context manager, which starts and stops it.

    Args:
        folder: For its data, its log and its configuration.
        targets: Addresses `host:port` whose `/metrics` it reads.
        rules: A file of alerting rules.
    """

    def __init__(self, folder: Path, targets: Iterable[str], rules: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._log = folder / "prometheus.log"
        self._configuration = folder / "prometheus.yml"
        quoted = ", ".join(json.dumps(target) for target in targets)
        self._configuration.write_text(_CONFIGURATION.format(rules=json.dumps(str(rules)), targets=quoted))

    def __enter__(self) -> Self:
        command: list[str | Path] = [
            program("prometheus"), f"--config.file={self._configuration}", f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}", "--log.level=warn",
        ]  # fmt: skip
        self._process = spawn(command, log=self._log)
        try:
            wait_until(self._is_ready, process=self._process, log=self._log, seconds=120)
        except BaseException:
            stop(self._process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    def value(self, query: str) -> dict[tuple[tuple[str, str], ...], float]:
        """What an expression is now: for each series its labels, sorted, and its value."""
        answer = self._get("query", query=query)
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in answer["result"]}

    def firing(self) -> dict[str, Mapping[str, Any]]:
        """The alerts that fire now, by name, each with its labels and annotations."""
        return {one["labels"]["alertname"]: one for one in self._get("alerts")["alerts"] if one["state"] == "firing"}

    def wait(self, true: Callable[[], bool], what: str, seconds: float = 180) -> None:
        """Waits until it is true.

        Raises:
            AssertionError: It is not, after so many seconds; with what fires and the end of the log.
        """
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, f"{what}: {sorted(self.firing())}\n{tail(self._log)}"
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._port}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def _get(self, what: str, **parameters: str) -> Any:
        url = f"http://{LOOPBACK}:{self._port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]
