"""MLIR text (`read`, `write`) and bytecode, upstream's dialects, the language server."""

from qdialect.plugin import Plugin

PLUGIN = Plugin(name="mlir", dialects={"shape": f"{__name__}.unranked:Shape"})
