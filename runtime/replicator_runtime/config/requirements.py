"""What the two plugins require in `configure`: Spark settings, and problems that the settings model cannot find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replicator_runtime.config.problem import Problem
from replicator_runtime.config.validation import json_path
from replicator_sdk.context import Configurer

# Spark reads these as comma-separated lists, so the lists of two plugins are joined.
_LISTS = ("spark.sql.extensions", "spark.jars", "spark.jars.packages", "spark.submit.pyFiles")


@dataclass(frozen=True, slots=True)
class SparkRequirements:
    """What plugins need in the Spark session; the pipeline's own settings still win over `conf`.

    Attributes:
        packages: Maven coordinates, without repetition, in the order they were asked for.
        conf: Spark settings.
    """

    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


class CollectingConfigurer(Configurer):
    """Collects what each plugin requires; `stage(i)` names the stage of the next calls.

    Attributes:
        problems: What plugins found wrong.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._packages: list[str] = []
        self._conf: dict[str, str] = {}
        self._path = ""

    def stage(self, index: int) -> CollectingConfigurer:
        """Attribute the next calls to the stage `index`."""
        self._path = json_path(("stages", index, "plugin", "properties"))
        return self

    def require_spark(self, *, packages: Sequence[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Add packages and settings; a setting that two plugins want differently is a problem."""
        self._packages.extend(p for p in packages if p not in self._packages)
        for key, value in (conf or {}).items():
            wanted = self._conf.get(key)
            if wanted is None or wanted == value:
                self._conf[key] = value
            elif key in _LISTS:
                self._conf[key] = ",".join(dict.fromkeys([*wanted.split(","), *value.split(",")]))
            else:
                self.problems.append(
                    Problem(self._path, f"source and target want {key} differently", f'set "{key}" in spark.conf')
                )

    def add_failure(self, message: str, *, path: str = "", hint: str = "") -> None:
        """Add a problem; `path` is relative to the plugin's properties."""
        self.problems.append(Problem(f"{self._path}.{path}" if path else self._path, message, hint))

    @property
    def spark(self) -> SparkRequirements:
        """Everything asked for so far."""
        return SparkRequirements(tuple(self._packages), dict(self._conf))
