"""TFLite: files, dialect, kernels of LiteRT, target and engine."""
