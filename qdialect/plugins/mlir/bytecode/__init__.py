"""MLIR bytecode (`.mlirbc`): modules in the binary form that mlir-opt reads and writes."""
