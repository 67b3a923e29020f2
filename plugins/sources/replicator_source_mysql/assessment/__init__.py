"""What will go wrong, and the SQL that fixes it: of the server, of tables, of columns."""
