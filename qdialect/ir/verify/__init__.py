"""The verifier: structure, dominance and types of a module, in linear time."""
