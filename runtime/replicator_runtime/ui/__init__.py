"""The page: static files without a build step, served beside the REST API."""
