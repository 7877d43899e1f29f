"""TFLite and Circle as `nn` and `quant`."""
