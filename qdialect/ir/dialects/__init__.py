"""Our dialects: upstream's `quant` (plus `quant.rescale`), `nn`, `onnx`; a little of `shape`; all
of `tosa` that we write; the attributes of `stablehlo` and `chlo`; two ops of IREE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

#: dialect name -> where its `Dialect` object lives
DIALECTS: Mapping[str, str] = {
    "quant": "qdialect.ir.quant:Quant",
    "nn": "qdialect.ir.ops:NN",
    "onnx": "qdialect.plugins.onnx.dialect:ONNX",
    "torch": "qdialect.plugins.torch.dialect:TORCH",
    "tflite": "qdialect.plugins.tflite.dialect:TFLITE",
    "shape": "qdialect.plugins.mlir.unranked:Shape",
    "tosa": "qdialect.plugins.tosa.dialect:TOSA",
    "stablehlo": "qdialect.plugins.stablehlo.dialect:STABLEHLO",
    "chlo": "qdialect.plugins.stablehlo.dialect:CHLO",
    "iree_linalg_ext": "qdialect.plugins.linalg.iree_linalg_ext:IREE_LINALG_EXT",
}


def load(name: str) -> Callable[[], Dialect]:
    """A function that imports the dialect when it is first needed."""

    def factory() -> Dialect:
        module, _, attribute = DIALECTS[name].partition(":")
        return getattr(import_module(module), attribute)

    return factory
