"""The engine: reads, numbers, gathers, applies and remembers (design §4). Knows nothing of service, UI or CLI."""

from replicator_runtime.engine.progress import Progress, RunView, TableState, TableView
from replicator_runtime.engine.worker import RunResult, run

__all__ = ["Progress", "RunResult", "RunView", "TableState", "TableView", "run"]
