"""What several plugins need and none should write again: schema differences, ordered renames, Arrow buffers, drivers' errors."""
