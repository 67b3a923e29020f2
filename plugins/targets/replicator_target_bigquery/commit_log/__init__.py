"""The table `_replicator_commits`: its rows, and the statements that read and write them."""
