"""Which secrets, files and variables a pipeline has in a process that a service starts: those that were given to its namespace.

Settings come there from people who may use the service and not its host, and may have a secret sent to a host of their choice.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from replicator_runtime import FOR_SERVICE

SERVICE_NAMESPACE = "REPLICATOR_SERVICE_NAMESPACE"
SHARED_SECRETS = "REPLICATOR_SERVICE_SHARED_SECRETS"
"""The environment variables in which a service says whose pipeline a process works for, and whether namespaces share secrets."""
SERVICE_VARIABLES = "REPLICATOR_VAR_"
_PLAIN_NAMESPACE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_OF_A_POD = frozenset({"kubernetes.io", "eks.amazonaws.com", "serviceaccount"})
_AZURE = ("azure", "tokens")


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Where a secret may be.

    Attributes:
        variable: An environment variable; empty for none.
        path: Of a file in the folder of secrets, and the name of an entry in the keyring.
    """

    variable: str
    path: str


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """What a pipeline of one namespace may use.

    Attributes:
        namespace: The pipeline's; empty where nothing of a namespace is used.
        are_shared: Whether it may use secrets that are given to no namespace, too.
    """

    namespace: str = ""
    are_shared: bool = False

    @classmethod
    def of_this_process(cls) -> Self | None:
        """Those of a process that a service has started; None in others, which may use all."""
        namespace = os.environ.get(SERVICE_NAMESPACE, "")
        if not namespace and not os.environ.get(FOR_SERVICE):
            return None
        return cls(namespace, bool(os.environ.get(SHARED_SECRETS)))

    def environment(self) -> dict[str, str]:
        """The variables of a process that is to have these rules."""
        return {SERVICE_NAMESPACE: self.namespace, SHARED_SECRETS: "1" if self.are_shared else ""}

    def places(self, name: str) -> list[SecretPlace]:
        """Where a secret is looked for, in this order."""
        found = []
        if self.namespace:
            found.append(SecretPlace(self._variable(name), f"{self.namespace}/{name}"))
        if self.are_shared:
            # Two low lines in a row are between a namespace and a name.
            found.append(SecretPlace("" if "__" in _upper(name) else variable_of(name), name))
        return found

    def _variable(self, name: str) -> str:
        """No two namespaces have variables of the same name, so those that could share one have none."""
        if not _PLAIN_NAMESPACE.fullmatch(self.namespace):
            return ""
        return f"{variable_of(self.namespace)}__{_upper(name)}"

    def may_read(self, place: Path) -> bool:
        """Whether `${file()}` may give this file: it is in the namespace's folder, or in no namespace's where secrets are shared."""
        folder = os.environ.get("REPLICATOR_SECRETS_DIR")
        place = place.resolve()
        if not folder or is_of_a_pod(place) or not place.is_relative_to(root := Path(folder).resolve()):
            return False
        parts = place.relative_to(root).parts
        # Kubernetes mounts a secret's files as links into a folder `..DATE`.
        is_of_none = len(parts) == 1 or (len(parts) == 2 and parts[0].startswith(".."))
        return parts[:1] == (self.namespace,) or (self.are_shared and is_of_none)


def variable_of(name: str) -> str:
    """The environment variable of a secret: upper case, other characters as `_`."""
    from replicator_runtime.observability.redaction import SECRET_VARIABLES

    return SECRET_VARIABLES + _upper(name)


def _upper(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def is_of_a_pod(place: Path) -> bool:
    """Whether a file may be a token by which a pod on Kubernetes has rights there or at a cloud."""
    parts = place.parts
    return bool(_OF_A_POD & set(parts)) or _AZURE in pairwise(parts)
