"""Carries out what operators ask of one pipeline while no run goes on: `python -m` this module, with the pipeline's file.

A process of its own, since it loads the pipeline's plugins. Its exit code is 0 also when a run goes on, which carries the requests out.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from replicator_sdk.errors import ReplicatorError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence

register("service.carry_out.began", "service.carry_out.ended")


def main(arguments: Sequence[str]) -> int:
    """Carry out what waits; the exit code. Prints code, message and hint of what prevented it, as JSON.

    Args:
        arguments: The pipeline's file.
    """
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.engine.control.control import carry_out_alone
    from replicator_runtime.engine.repair.command import REPAIRS
    from replicator_runtime.engine.schedule.schedule import VERIFY_EVERY, verify_every
    from replicator_runtime.observability.logs import configure_logging
    from replicator_runtime.observability.redaction import redact
    from replicator_state import LEASE_HELD

    configure_logging("error", "console")
    failpoint("service.carry_out.began")
    try:
        carry_out_alone(load_pipeline(arguments[0]), {**REPAIRS, VERIFY_EVERY: verify_every})
    except ReplicatorError as error:
        if error.code == LEASE_HELD:
            return 0
        print(json.dumps({"code": error.code, "message": redact(error.message), "hint": redact(error.hint)}))  # noqa: T201
        return error.exit_code
    failpoint("service.carry_out.ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
