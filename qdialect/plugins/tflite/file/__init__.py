"""TFLite (LiteRT) and Circle files."""
