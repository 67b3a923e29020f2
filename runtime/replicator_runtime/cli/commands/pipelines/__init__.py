"""Commands that concern a whole replicator and change it."""
