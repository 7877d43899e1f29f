"""TOSA: dialect, raising, lowering, interpreter, target and engine."""
