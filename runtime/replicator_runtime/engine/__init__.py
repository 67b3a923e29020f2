"""The engine: reads, numbers, batches and applies changes, and keeps how far it is. `worker.run` runs a pipeline."""
