"""Makes the tables of `qdialect/plugins/mlir/upstream/tables` from the ODS definitions of MLIR."""
