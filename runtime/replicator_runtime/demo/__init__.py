"""The demonstration: a SQLite shop replicated into Delta tables while it changes, then compared table by table."""

from replicator_runtime.demo.demo import DemoResult, run_demo

__all__ = ["DemoResult", "run_demo"]
