"""What several formats need; it knows none of them."""
