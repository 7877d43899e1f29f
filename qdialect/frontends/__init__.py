"""Ways in: model formats read into our dialects."""
