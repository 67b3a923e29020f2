"""The peers: how each is installed, set up, run and timed."""
