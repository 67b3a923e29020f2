"""Creates the supervisor of a service from its settings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from replicator_runtime.service.commands.process import child_environment
from replicator_runtime.service.supervision.local import LocalLauncher
from replicator_runtime.service.supervision.supervisor import Supervisor

if TYPE_CHECKING:
    from replicator_runtime.service.settings import ServiceSettings
    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.supervision.files import PipelineFiles
    from replicator_runtime.service.supervision.former.runs import FormerRuns
    from replicator_runtime.service.supervision.launcher import Launcher

_THIS = (sys.executable, "-c", "from replicator_runtime.cli import main; main()")


def create_supervisor(
    settings: ServiceSettings, database: Database, files: PipelineFiles, former: FormerRuns
) -> Supervisor:
    """The supervisor of a service; it does nothing until it is started."""
    local = LocalLauncher(
        settings.work_folder / "instances",
        settings.replicator or _THIS,
        environment=child_environment(settings, os.environ, ""),
        shared_secrets=settings.shared_secrets,
    )
    launchers: list[Launcher] = [local]
    if settings.jobs is not None:
        from replicator_runtime.service.supervision.kubernetes_jobs import KubernetesLauncher

        launchers.insert(
            0, KubernetesLauncher(settings.jobs, shared_secrets=settings.shared_secrets, networks=settings.networks)
        )
    return Supervisor(
        database,
        {launcher.name: launcher for launcher in launchers},
        settings.work_folder,
        files,
        former,
        stop_seconds=settings.stop_seconds,
    )
