"""Long random histories of real sources into real targets; `make soak` runs them, `make test` a few rounds of each."""
