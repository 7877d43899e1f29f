"""PyTorch programs: reading exported ones, and writing modules of them."""
