"""linalg: lowering, interpreter, target and engine."""
