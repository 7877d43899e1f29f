"""Small models and comparisons for the ONNX tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from qdialect.ir.context import QContext, new_context
from qdialect.passes.casts.integerize import Integerize
from qdialect.passes.cleanup.dce import Dce
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.plugins.onnx.write.kernels import NEWEST, Version, installed_runtime

Array = NDArray[Any]

STORAGE_DTYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16}
BOUNDS = {name: np.iinfo(dtype) for name, dtype in STORAGE_DTYPES.items()}

RUNTIME = installed_runtime() or NEWEST


def needs_runtime(version: Version, fact: str) -> None:
    """Skip the test if the installed ONNX Runtime is older."""
    if version > RUNTIME:
        pytest.skip(f"ONNX Runtime before {version[0]}.{version[1]} {fact}")


class ModelBuilder:
    """Builds a model node by node; constants are named by the caller."""

    def __init__(self, opset: int = 17, name: str = "net") -> None:
        self.opset, self.name = opset, name
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str | None], dtype: Any = np.float32) -> str:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, code, shape))
        return name

    def output(self, name: str, dtype: Any = np.float32, shape: Any = None) -> None:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(helper.make_tensor_value_info(name, code, shape))

    def const(self, name: str, value: Any, dtype: Any = None) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        output: str | Sequence[str],
        name: str | None = None,
        **attributes: Any,
    ) -> str:
        outputs = [output] if isinstance(output, str) else list(output)
        label = f"{outputs[0]}_node" if name is None else name
        self.nodes.append(helper.make_node(op, inputs, outputs, label, **attributes))
        return outputs[0]

    def qdq(self, tensor: str, scale: Any, zero: Any, storage: str = "u8", axis: int = 0) -> str:
        """Quantize and dequantize a tensor; the dequantized name."""
        stored = self.quantize(tensor, scale, zero, storage, axis)
        return self.dequantize(stored, f"{tensor}_dq", f"{tensor}_s", f"{tensor}_z", axis, scale)

    def quantize(self, tensor: str, scale: Any, zero: Any, storage: str, axis: int = 0) -> str:
        self.const(f"{tensor}_s", scale, np.float32)
        self.const(f"{tensor}_z", zero, STORAGE_DTYPES[storage])
        more = {"axis": axis} if np.ndim(scale) else {}
        names = [tensor, f"{tensor}_s", f"{tensor}_z"]
        return self.node("QuantizeLinear", names, f"{tensor}_q", **more)

    def dequantize(
        self, stored: str, output: str, scale: str, zero: str, axis: int, value: Any
    ) -> str:
        more = {"axis": axis} if np.ndim(value) else {}
        return self.node("DequantizeLinear", [stored, scale, zero], output, **more)

    def weight(self, name: str, stored: Array, scale: Any, zero: Any = None, axis: int = 0) -> str:
        """A stored constant behind a DequantizeLinear; the dequantized name."""
        self.const(f"{name}_q", stored)
        zeros = np.zeros(np.shape(scale)) if zero is None else zero
        self.const(f"{name}_s", scale, np.float32)
        self.const(f"{name}_z", zeros, stored.dtype)
        return self.dequantize(f"{name}_q", name, f"{name}_s", f"{name}_z", axis, scale)

    def model(self, check: bool = True, ir_version: int = 8) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, self.initializers
        )
        domains = {node.domain for node in self.nodes} - {""}
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 1) for domain in sorted(domains)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
        known = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.output}
        for value in model.graph.output:
            if not value.type.tensor_type.HasField("shape"):
                value.CopyFrom(known[value.name])
        if check:
            onnx.checker.check_model(model)
        return model


def unary(op: str, shape: Sequence[int], opset: int = 17, **attributes: Any) -> onnx.ModelProto:
    """`y = op(x)` on floats."""
    b = ModelBuilder(opset)
    b.node(op, [b.input("x", shape)], "y", **attributes)
    b.output("y")
    return b.model()


def load(model: Any) -> tuple[QContext, ModuleOp]:
    """Import, verify, and check that the text reads back to the same text."""
    ctx = new_context()
    module = import_model(model, ctx)
    module.verify()
    text = str(module)
    assert str(Parser(ctx, text).parse_module()) == text
    return ctx, module


def integerized(model: Any) -> tuple[QContext, ModuleOp]:
    """Imported, with dequantize-op-quantize as quantized ops."""
    ctx, module = load(model)
    Integerize().apply(ctx, module)
    Dce().apply(ctx, module)
    module.verify()
    return ctx, module


def ops(module: ModuleOp) -> list[str]:
    """Op names in order, without constants, module, function and return."""
    skipped = ("builtin.module", "func.func", "func.return", "nn.constant")
    return [op.name for op in module.walk() if op.name not in skipped]


def export(ctx: QContext, module: ModuleOp, form: Any = "qdq", **options: Any) -> onnx.ModelProto:
    model = write_model(module, ctx, form, **options).whole()
    onnx.checker.check_model(model)
    return model


def random_feeds(model: onnx.ModelProto, seed: int, **dims: int) -> dict[str, Array]:
    """Inputs: normal floats, integers of the full range."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    constants = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value or dims.get(d.dim_param, 2) for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            feeds[value.name] = (2 * rng.standard_normal(shape)).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = rng.random(shape) < 0.5
        else:
            info = np.iinfo(dtype)
            feeds[value.name] = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return feeds


def assert_same(a: onnx.ModelProto, b: onnx.ModelProto, runs: int = 3, **dims: int) -> None:
    """Bit-identical in ONNX Runtime without optimizations."""
    first, second = OrtEngine(a, optimize=False), OrtEngine(b, optimize=False)
    assert first.outputs == second.outputs
    for seed in range(runs):
        feeds = random_feeds(a, seed, **dims)
        want, got = first.run(feeds), second.run(feeds)
        for name in want:
            assert want[name].dtype == got[name].dtype
            np.testing.assert_array_equal(got[name], want[name])


def roundtrip(model: onnx.ModelProto, **dims: int) -> tuple[ModuleOp, onnx.ModelProto]:
    """Import and export in QDQ form, asserting the same function; both results."""
    ctx, module = load(model)
    written = export(ctx, module)
    assert_same(model, written, **dims)
    return module, written


def steps(got: Array, real: Array, scale: float, zero: int, storage: str) -> tuple[int, int]:
    """Largest difference in steps from the exact result, and the largest away from ties."""
    bounds = BOUNDS[storage]
    exact = real / scale
    stored = np.clip(np.rint(exact) + zero, bounds.min, bounds.max)
    distance = np.abs(got.astype(np.int64) - stored)
    near_tie = np.abs(exact - np.floor(exact) - 0.5) < 1e-4
    return int(distance.max()), int(np.where(near_tie, 0, distance).max())


Reference = Callable[..., Array]
Feeds = Mapping[str, Array]
