"""qdialect: the quantization middle-end."""
__version__ = "0.1.0"
