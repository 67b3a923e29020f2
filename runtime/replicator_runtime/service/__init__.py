"""`replicator serve`: the REST API for teams, and the page, over the replicators below one base path."""
