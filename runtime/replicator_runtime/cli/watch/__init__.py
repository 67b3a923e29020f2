"""`replicator status --watch`: a replicator's tables, those first that need an operator."""
