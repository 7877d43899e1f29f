"""Quantizers of weights alone, in 4 bits and blocks of 32, with zero points.

A program of its own, in an environment with NNCF, ONNX Runtime, onnx-ir and torch:
`python of_weights.py TOOL FLOAT.onnx SAMPLES.npz OUT.onnx`, samples with a leading sample axis.

- `rtn`, `hqq`, `gptq`: ONNX Runtime's quantizer of products (MatMulNBits); `tables`: nearest, and
  tables of which rows are picked (GatherBlockQuantized).
- `nncf`: NNCF's compression of all weights; `nncf-data`: with scales estimated on samples.

They take products for MatMul alone: a Gemm is a MatMul and an Add to them.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

BLOCK = 32
Feeds = dict[str, np.ndarray]


def _products(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with `Gemm` of a constant matrix as `MatMul` and `Add`."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        said = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = said.get("alpha", 1.0) == said.get("beta", 1.0) == 1.0 and not said.get("transA")
        if node.op_type != "Gemm" or not plain or node.input[1] not in constants:
            nodes.append(node)
            continue
        matrix = numpy_helper.to_array(constants[node.input[1]])
        name = f"{node.output[0]}/matrix"
        matrix = np.ascontiguousarray(matrix.T if said.get("transB") else matrix)
        model.graph.initializer.append(numpy_helper.from_array(matrix, name))
        bias = len(node.input) > 2
        result = f"{node.output[0]}/product" if bias else node.output[0]
        nodes.append(helper.make_node("MatMul", [node.input[0], name], [result], result))
        if bias:
            ends = [result, node.input[2]]
            nodes.append(helper.make_node("Add", ends, [node.output[0]], f"{result}/bias"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def _runtime(model: onnx.ModelProto, samples: list[Feeds], tool: str) -> onnx.ModelProto:
    from onnxruntime.quantization import CalibrationDataReader
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Feeds | None:
            return next(self.left, None)

    config: Any = {
        "rtn": lambda: nbits.DefaultWeightOnlyQuantConfig(block_size=BLOCK, is_symmetric=False),
        "tables": lambda: nbits.DefaultWeightOnlyQuantConfig(
            block_size=BLOCK, is_symmetric=False, op_types_to_quantize=("MatMul", "Gather")
        ),
        "hqq": lambda: nbits.HQQWeightOnlyQuantConfig(block_size=BLOCK),
        "gptq": lambda: nbits.GPTQWeightOnlyQuantConfig(Reader(), block_size=BLOCK),
    }[tool]()
    quantizer: Any = nbits.MatMulNBitsQuantizer(
        model, block_size=BLOCK, is_symmetric=False, algo_config=config
    )
    quantizer.process()
    return quantizer.model.model


def _nncf(model: onnx.ModelProto, samples: list[Feeds], tool: str) -> onnx.ModelProto:
    import nncf

    options = {"dataset": nncf.Dataset(samples), "scale_estimation": True}
    return nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT4_ASYM,
        group_size=BLOCK,
        ratio=1.0,
        all_layers=True,
        **(options if tool == "nncf-data" else {}),
    )


def main() -> None:
    """Quantize."""
    tool, source, data, target = sys.argv[1:]
    logging.disable(logging.WARNING)
    model = _products(onnx.load(source))
    for opset in model.opset_import:
        if not opset.domain and opset.version < 21:  # integers of 4 bits
            model = onnx.version_converter.convert_version(model, 21)
            break
    with np.load(data) as stored:
        arrays = {name: stored[name] for name in stored.files}
    count = len(next(iter(arrays.values())))
    samples = [{name: array[i] for name, array in arrays.items()} for i in range(count)]
    make = _nncf if tool.startswith("nncf") else _runtime
    onnx.save(make(model, samples, tool), target)


if __name__ == "__main__":
    main()
