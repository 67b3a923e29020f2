"""Changes of tables at MySQL and MariaDB that reach the target."""
