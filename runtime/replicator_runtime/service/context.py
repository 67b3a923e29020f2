"""What the operations of one service share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from replicator_runtime.service.catalogue.installed_plugins import InstalledPlugins
from replicator_runtime.service.drafts.draft_texts import DraftTexts
from replicator_runtime.service.observation.lineage.known import Lineage
from replicator_runtime.service.observation.observation import Observation
from replicator_runtime.service.observation.stored import directory_of, pipeline_row
from replicator_runtime.service.observation.streaming.streams import Streams
from replicator_runtime.service.operations.carrier import Carrier
from replicator_runtime.service.operations.jobs import Jobs
from replicator_runtime.service.pipelines.items import read_item, stream_items
from replicator_runtime.service.places import Places
from replicator_runtime.service.supervision.assembly import create_supervisor
from replicator_runtime.service.supervision.files import PipelineFiles
from replicator_runtime.service.supervision.former.runs import FormerRuns

if TYPE_CHECKING:
    from replicator_runtime.service.commands.runner import CommandRunner
    from replicator_runtime.service.settings import ServiceSettings
    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.supervision.supervisor import Supervisor


@dataclass(slots=True)
class ServiceContext:
    """What the operations of one service share.

    Attributes:
        settings: How it was started.
        database: Its database.
        commands: Runs the command line.
        plugins: Which are installed.
        draft_texts: The drafts as they are listed.
        observation: What is known of the pipelines' state.
        streams: The event streams.
        lineage: The lineage of tables.
        carrier: Has requests carried out that no run takes.
        files: The files of pipelines, for commands; see `pipelines.files.pipeline_file`.
        supervisor: Brings about what is wanted of pipelines; to be woken after a change.
        jobs: Runs commands for people.
        state_places: For requests that wait for a state.
    """

    settings: ServiceSettings
    database: Database
    commands: CommandRunner
    plugins: InstalledPlugins = field(init=False)
    draft_texts: DraftTexts = field(init=False)
    observation: Observation = field(init=False)
    streams: Streams = field(init=False)
    lineage: Lineage = field(init=False)
    carrier: Carrier = field(init=False)
    files: PipelineFiles = field(init=False)
    supervisor: Supervisor = field(init=False)
    jobs: Jobs = field(init=False)
    state_places: Places = field(init=False)

    def __post_init__(self) -> None:
        self.plugins = InstalledPlugins(self.commands)
        self.draft_texts = DraftTexts(self.database)
        self.observation = Observation(self.settings, self.database)
        self.streams = Streams(
            self.database,
            self.observation,
            lambda namespace: stream_items(self, namespace),
            lambda namespace, name: read_item(self, namespace, name).model_dump(mode="json", by_alias=True),
        )
        self.lineage = Lineage(self)
        self.carrier = Carrier(self)
        self.files = PipelineFiles(self.settings.work_folder / "pipelines")
        former = FormerRuns(lambda *key: directory_of(pipeline_row(self.database, *key), self.settings.base_path))
        self.supervisor = create_supervisor(self.settings, self.database, self.files, former)
        self.jobs = Jobs(self.settings, self.database)
        self.state_places = Places(16, 8)

    def open(self) -> None:
        """Go on with what an earlier service left; returns at once."""
        self.carrier.resume()
        self.supervisor.start()
        self.jobs.resume()

    def close(self) -> None:
        """End what the service does beside its requests."""
        self.streams.close()
        self.carrier.close()
        self.supervisor.close()
        self.commands.close()
        self.jobs.close()


async def context_of(request: Request) -> ServiceContext:
    """The context of the service that got a request."""
    found: ServiceContext = request.app.state.context
    return found


Context = Annotated[ServiceContext, Depends(context_of)]
