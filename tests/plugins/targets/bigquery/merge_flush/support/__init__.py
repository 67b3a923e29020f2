"""What several tests of mode `merge-flush` use."""
