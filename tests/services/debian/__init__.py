"""Programs of Debian, without installing them."""
