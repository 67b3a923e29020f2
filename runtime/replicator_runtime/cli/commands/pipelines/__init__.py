"""Commands that concern a whole replicator: what an edit of it does, and what changes or removes it."""
