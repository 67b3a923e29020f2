"""Shows a run's metrics to Prometheus: over HTTP, or in a file for the node exporter."""
