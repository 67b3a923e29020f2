"""The database's tables over releases, by alembic. Each release adds a module to `versions`; none is changed once released."""
