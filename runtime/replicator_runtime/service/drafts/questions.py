"""What is asked of the source and the target of a config: by the command line, in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_runtime.service.commands.config_file import config_file
from replicator_runtime.service.drafts.pointers import pointer_of
from replicator_runtime.service.problems import FieldProblem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.service.commands.runner import Envelope
    from replicator_runtime.service.context import ServiceContext

_NAME = "the pipeline's config"
_SECONDS = 120.0


def ask(
    context: ServiceContext, config: Mapping[str, Any], words: Sequence[str], texts: Sequence[str] = ()
) -> Envelope:
    """Give a command the config; `texts` are what it gets of users.

    Raises:
        ProblemError: As `CommandRunner.run`.
    """
    with config_file(context.settings, config) as path:
        asked = [*words, "--", str(path), *texts]
        found = context.commands.run(asked, timeout=_SECONDS)
        return found.renamed({str(path): _NAME, str(path.relative_to(context.settings.work_folder)): _NAME})


def answer(context: ServiceContext, config: Mapping[str, Any], words: Sequence[str], texts: Sequence[str] = ()) -> Any:
    """The data that a command gives of the config.

    Raises:
        ProblemError: 422 with the command's code and each problem of a config that is not valid; else as the command fails.
    """
    found = ask(context, config, words, texts)
    if found.data is None:
        raise_for_problems(found, config)
    return found.data


def raise_for_problems(found: Envelope, config: Mapping[str, Any]) -> None:
    """As `Envelope.raise_for_error`, with a pointer into the config for each of its problems."""
    try:
        found.raise_for_error()
    except ProblemError as error:
        if any(problem["path"] for problem in found.problems):
            error.errors = [
                FieldProblem(pointer=pointer_of(problem["path"], config), message=problem["message"])
                for problem in found.problems
            ]
        raise
