"""Drafts of pipelines, and assessments: the REST API of seed 001."""
