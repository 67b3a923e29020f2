"""What is seen of pipelines: state, events, logs, metrics."""
