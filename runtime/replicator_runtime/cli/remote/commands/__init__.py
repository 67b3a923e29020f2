"""What gives each command to a service and prints what comes of it; `replicator_runtime.cli.remote.forms` lists them."""
