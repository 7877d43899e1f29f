"""Properties of this machine's processor that results of ONNX Runtime depend on."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

SATURATES = "ONNX Runtime's sums of products of u8 and i8 saturate on this processor (no VNNI)"


@cache
def saturates_pairs() -> bool:
    """Whether ONNX Runtime adds two products of u8 and i8 in 16 bits, which saturate.

    x86 without VNNI does: 255 * 127 + 255 * 127 becomes 32767. False without ONNX Runtime.
    """
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return False
    onnx: Any = import_module("onnx")
    runtime: Any = import_module("onnxruntime")
    helper, depth = onnx.helper, 64
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "pairs",
        [helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, [4, depth])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [4, 16])],
        [onnx.numpy_helper.from_array(np.full((depth, 16), 127, np.int8), "b")],
    )
    opsets = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"a": np.full((4, depth), 255, np.uint8)})
    return int(found[0, 0]) != 255 * 127 * depth


def skip_where_pairs_saturate() -> None:
    """End a test whose other assertions hold on every processor."""
    if saturates_pairs():
        pytest.skip(SATURATES)
