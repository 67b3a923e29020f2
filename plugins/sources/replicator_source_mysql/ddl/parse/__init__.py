"""What a statement asks for, read from its tokens before any table is looked at."""
