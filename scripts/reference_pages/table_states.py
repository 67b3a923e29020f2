"""Makes the diagram of a table's states for ARCHITECTURE.md."""

from __future__ import annotations


def table_states_part() -> str:
    """The diagram as a block of Mermaid."""
    from replicator_runtime.engine.lifecycle.state_diagram import state_diagram

    return f"```mermaid\n{state_diagram()}\n```"
