"""Tests of the schema history, compared with the catalogues of real servers."""
