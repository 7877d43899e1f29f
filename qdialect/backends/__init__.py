"""Ways out: what our dialects are written as, and the engines that run it."""
