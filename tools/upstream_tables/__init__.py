"""Makes the tables of `qdialect/upstream/tables` from the ODS definitions of MLIR."""
