"""Parts of the pipeline JSON that have a module each."""
