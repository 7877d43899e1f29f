"""Programs of PyTorch: what `torch.export` makes, from a file or as an object."""
