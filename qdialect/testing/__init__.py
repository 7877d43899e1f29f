"""What a package that extends qdialect tests itself with: lit tests under pytest."""
