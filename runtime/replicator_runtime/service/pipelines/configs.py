"""The config of a pipeline: from a draft, and checked before it is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from replicator_runtime.service.catalogue.secret_settings import refuse_literal_secrets
from replicator_runtime.service.drafts.documents import completed, config_text
from replicator_runtime.service.drafts.questions import answer
from replicator_runtime.service.store.documents import StoredDrafts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.service.context import ServiceContext


def config_of_draft(context: ServiceContext, namespace: str, name: str) -> dict[str, Any]:
    """The config that a draft has.

    Raises:
        ProblemError: 404 when there is no such draft.
    """
    found: dict[str, Any] = json.loads(StoredDrafts(context.database).find(namespace, name).config)
    return found


def checked(context: ServiceContext, namespace: str, name: str, config: Mapping[str, Any]) -> str:
    """The text that is stored of a config: with the pipeline's name, its namespace, and where its state is.

    Raises:
        ProblemError: 422 with the place of each problem when it is not valid; RPL-1504 when it has a secret in it.
    """
    refuse_literal_secrets(context, config)
    whole = completed({**config, "name": name}, context.settings, namespace, name)
    text = config_text(whole)
    answer(context, whole, ["validate"])
    return text
