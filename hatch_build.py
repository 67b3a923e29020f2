"""Build hook of the `replicator` distribution: a released wheel pins the SDK of its own version.

In a checkout (`pip install -e .`) the SDK is on the path through `dev-mode-dirs`, and a dependency on it would send pip to
the index for a release that may not exist yet. So the pin is added to released wheels only.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SdkPin(BuildHookInterface):
    """Adds `replicator-sdk==<own version>` to the metadata of a released wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Pins the SDK when hatchling builds a `standard` wheel; an `editable` one is left as it is.

        Args:
            version: hatchling's name of the kind of build, `standard` or `editable`.
            build_data: hatchling's description of the build, changed in place.
        """
        if version == "standard":
            build_data["dependencies"].append(f"replicator-sdk=={self.metadata.version}")
