"""ONNX files: the importer (`read`) and the exporter (`write`)."""
