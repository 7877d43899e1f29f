"""`nn` and `quant` to the ops of TFLite and Circle files."""
