"""What a statement does, read from its tokens without the definitions of tables."""
