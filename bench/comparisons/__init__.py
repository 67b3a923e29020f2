"""What is compared, and how the sides take turns."""
