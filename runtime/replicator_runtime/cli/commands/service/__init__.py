"""Commands for a service: start it, create its tokens, start and stop the replicators that it runs."""
