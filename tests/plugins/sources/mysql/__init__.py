"""Tests of the MySQL and MariaDB source."""
