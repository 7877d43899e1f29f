"""Pure arithmetic of quantization: rounding, requantization, contracts, float text."""
