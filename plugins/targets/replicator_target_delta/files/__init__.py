"""Data files of tables: written, listed, described by statistics and deletion vectors."""
