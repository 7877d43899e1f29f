"""StableHLO and CHLO: attributes, raising, lowering, interpreter, target and engine."""
