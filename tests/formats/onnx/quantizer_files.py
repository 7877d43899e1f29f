"""Small files in the forms that public quantizers write, seeded, and made without them.

Each is as large as its form needs: the ops around it are those that the quantizer's own example
networks had.  A form that no runtime takes comes with a model that says the same in one that all
take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_models import Array, ModelBuilder

QUARK, VITIS = "com.amd.quark", "com.vai.quantize"
CODES = {
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
    "i16": TensorProto.INT16,
    "u16": TensorProto.UINT16,
    "i4": TensorProto.INT4,
    "u4": TensorProto.UINT4,
    "f8": TensorProto.FLOAT8E4M3FN,
}


@dataclass(frozen=True)
class File:
    """A model as a quantizer writes it, and what it means if no runtime takes it."""

    model: onnx.ModelProto
    meant: onnx.ModelProto | None = None


class Builder(ModelBuilder):
    """Constants of types that numpy lacks, and casts by attributes as they are given."""

    def __init__(self, opset: int, seed: int) -> None:
        super().__init__(opset)
        self.random = np.random.default_rng(seed)

    def codes(self, name: str, kind: str, values: Any) -> str:
        array = np.asarray(values)
        tensor = helper.make_tensor(name, CODES[kind], array.shape, array.reshape(-1).tolist())
        self.initializers.append(tensor)
        return name

    def weight_codes(self, name: str, kind: str, shape: Sequence[int]) -> str:
        low, high = {"i8": (-127, 128), "u8": (0, 256), "i4": (-8, 8), "u4": (0, 16)}[kind]
        return self.codes(name, kind, self.random.integers(low, high, shape))

    def scales(self, name: str, shape: Sequence[int], least: float = 0.01) -> str:
        values = self.random.uniform(least, 3 * least, shape)
        return self.const(name, values, np.float32)

    def cast_pair(
        self, x: str, kind: str, scale: Any, zero: Any, domain: str = "", **more: Any
    ) -> str:
        """Quantized and dequantized: the name of the floats."""
        self.const(f"{x}_s", scale, np.float32)
        self.codes(f"{x}_z", kind, zero)
        names = [f"{x}_s", f"{x}_z"]
        self.node("QuantizeLinear", [x, *names], f"{x}_q", domain=domain, **more)
        return self.node("DequantizeLinear", [f"{x}_q", *names], f"{x}_dq", domain=domain, **more)

    def finish(self, y: str, ir: int = 8) -> onnx.ModelProto:
        self.output(y)
        return self.model(check=False, ir_version=max(ir, 10 if self.opset >= 21 else 8))


def nncf_depthwise(kind: str = "i8") -> File:
    """NNCF: the input of a depthwise convolution has a scale per channel; results are floats."""
    b = Builder(13, 1)
    zero = -128 if kind == "i8" else 0
    x = b.cast_pair(b.input("x", (1, 3, 8, 8)), kind, 0.02, 0 if kind == "i8" else 128)
    b.weight("w", b.random.integers(-127, 128, (8, 3, 1, 1)).astype(np.int8), np.full(8, 0.01))
    b.const("b", b.random.normal(0, 0.5, 8), np.float32)
    b.node("Relu", [b.node("Conv", [x, "w", "b"], "c")], "r")
    r = b.cast_pair("r", kind, b.random.uniform(0.005, 0.02, 8), [zero] * 8, axis=1)
    b.weight("d", b.random.integers(-127, 128, (8, 1, 3, 3)).astype(np.int8), np.full(8, 0.01))
    return File(b.finish(b.node("Conv", [r, "d"], "y", group=8, pads=[1] * 4)))


def nncf_compressed(kind: str, *, negative: bool = False) -> File:
    """NNCF `compress_weights`: scales of a kernel with extents of one behind."""

    def made(shape: tuple[int, ...]) -> onnx.ModelProto:
        b = Builder(21, 2)
        b.weight_codes("w", kind, (6, 6, 1, 3))
        scales = b.random.uniform(0.01, 0.03, 6)
        if negative:
            scales[::2] *= -1
        b.const("s", scales.reshape(shape), np.float32)
        names = ["w", "s"]
        if kind[0] == "u":
            names.append(b.codes("z", kind, b.random.integers(1, 9, 6).reshape(shape)))
        b.node("DequantizeLinear", names, "f", axis=0)
        return b.finish(b.node("Conv", [b.input("x", (1, 6, 5, 7)), "f"], "y", pads=[0, 1, 0, 1]))

    return File(made((6, 1, 1)), made((6,)))


def nncf_groups(kind: str) -> File:
    """NNCF `compress_weights` of a Gemm: the axis is not that of the groups."""

    def made(axis: int) -> onnx.ModelProto:
        b = Builder(21, 3)
        b.weight_codes("w", kind, (16, 64))
        names = ["w", b.scales("s", (16, 4))]
        if kind[0] == "u":
            names.append(b.codes("z", kind, b.random.integers(0, 16, (16, 4))))
        b.node("DequantizeLinear", names, "f", axis=axis, block_size=16)
        b.const("b", b.random.normal(0, 1, 16), np.float32)
        return b.finish(b.node("Gemm", [b.input("x", (2, 64)), "f", "b"], "y", transB=1))

    return File(made(0), made(1))


def modelopt_groups() -> File:
    """ModelOpt, round to nearest: float weights are quantized in groups nobody gives a size."""

    def made(**attributes: int) -> onnx.ModelProto:
        b = Builder(21, 4)
        b.const("w", b.random.normal(0, 0.2, (32, 8)), np.float32)
        names = [b.scales("s", (2, 8), 0.05), b.codes("z", "i4", np.zeros((2, 8), int))]
        b.node("QuantizeLinear", ["w", *names], "q", **attributes)
        b.node("DequantizeLinear", ["q", *names], "f", **attributes)
        return b.finish(b.node("MatMul", [b.input("x", (4, 32)), "f"], "y"))

    return File(made(), made(axis=0, block_size=16))


def modelopt_inputs(kind: str) -> File:
    """ModelOpt: casts at the inputs of products only, float weights that are quantized, and in
    opset 21 a MatMul with an Add, which ONNX Runtime alone does not load for i8."""
    b = Builder(21 if kind == "i8" else 19, 5)
    x = b.cast_pair(b.input("x", (1, 8, 16)), kind, 0.03, 0)
    w = b.cast_pair(b.const("w", b.random.normal(0, 0.2, (16, 16)), np.float32), kind, 0.01, 0)
    b.const("b", b.random.normal(0, 1, 16), np.float32)
    b.node("Relu", [b.node("Add", [b.node("MatMul", [x, w], "m"), "b"], "a")], "r")
    r = b.cast_pair("r", kind, 0.05, 0)
    v = b.cast_pair(b.const("v", b.random.normal(0, 0.2, (16, 4)), np.float32), kind, 0.01, 0)
    return File(b.finish(b.node("MatMul", [r, v], "y")))


def aimet(kind: str) -> File:
    """AIMET: casts at every tensor, activations of 16 bits, weights of 4 along the axis of a
    transposed convolution."""
    b = Builder(21, 6)
    middle = {"u16": 32768, "u8": 128}[kind]
    scale = {"u16": 1e-4, "u8": 0.02}[kind]
    x = b.cast_pair(b.input("x", (1, 4, 6, 6)), kind, scale, middle)
    names = [b.weight_codes("w", "i4", (4, 8, 2, 2)), b.scales("s", (8,))]
    b.node("DequantizeLinear", [*names, b.codes("z", "i4", np.zeros(8, int))], "f", axis=1)
    c = b.cast_pair(b.node("ConvTranspose", [x, "f"], "c", strides=[2, 2]), kind, scale, middle)
    return File(
        b.finish(
            b.cast_pair(b.node("Sigmoid", [c], "g"), kind, 2.0**-8 if kind == "u8" else 2.0**-16, 0)
        )
    )


def quark_integers(kind: str, domain: str = QUARK) -> File:
    """Quark: its own casts, along the axis 0 where none is given."""
    quantize, dequantize = (
        ("ExtendedQuantizeLinear", "ExtendedDequantizeLinear")
        if domain == QUARK
        else ("VitisQuantizeLinear", "VitisDequantizeLinear")
    )

    def made(domain: str, quantize: str, dequantize: str, **along: int) -> onnx.ModelProto:
        b = Builder(21, 7)
        zero = {"i8": -3, "u8": 100, "i16": 11, "u16": 30000}[kind]
        step = 0.02 if kind[1:] == "8" else 1e-4
        b.const("s", step, np.float32)
        b.codes("z", kind, zero)
        b.node(quantize, [b.input("x", (3, 4)), "s", "z"], "q", domain=domain)
        b.node(dequantize, ["q", "s", "z"], "d", domain=domain)
        b.const("w", b.random.normal(0, 0.5, (3, 4)), np.float32)
        names = [b.const("t", b.random.uniform(0.01, 0.02, 3), np.float32)]
        names.append(b.codes("u", "i8", [0, 0, 0]))
        b.node(quantize, ["w", *names], "wq", domain=domain, **along)
        b.node(dequantize, ["wq", *names], "wd", domain=domain, **along)
        return b.finish(b.node("Gemm", ["d", "wd"], "y", transB=1))

    plain = made("", "QuantizeLinear", "DequantizeLinear", axis=0)
    return File(made(domain, quantize, dequantize), plain)


def quark_floats(to: int) -> File:
    """Quark: numbers rounded to float16 (saturating) or bfloat16, and back."""

    def made(own: bool) -> onnx.ModelProto:
        b = Builder(17, 8)
        x = b.input("x", (4, 4))
        if own:
            b.const("s", 1.0, np.float32)
            b.initializers.append(helper.make_tensor("z", to, (), [0.0]))
            b.node("ExtendedQuantizeLinear", [x, "s", "z"], "q", domain=QUARK)
            b.node("ExtendedDequantizeLinear", ["q", "s", "z"], "d", domain=QUARK)
        else:
            if to == TensorProto.FLOAT16:
                names = [b.const("l", -65504, np.float32), b.const("h", 65504, np.float32)]
                x = b.node("Clip", [x, *names], "c")
            b.node("Cast", [b.node("Cast", [x], "q", to=to)], "d", to=TensorProto.FLOAT)
        return b.finish(b.node("Neg", ["d"], "y"))

    return File(made(True), made(False))


def quark_blocks(op: str = "MXQuantizeDequantize") -> onnx.ModelProto:
    """Quark: blocks with an exponent in common, of which there is no type."""
    b = Builder(17, 9)
    more = {"element_dtype": "int8"} if op[0] == "M" else {"bit_width": 16}
    rounded = b.node(op, [b.input("x", (2, 16))], "r", domain=QUARK, axis=1, block_size=8, **more)
    b.weight("w", b.random.integers(-127, 128, (16, 4)).astype(np.int8), 0.01)
    return b.finish(b.node("MatMul", [rounded, "w"], "y"))


def keras() -> File:
    """tf2onnx of a quantized Keras network: NHWC outside, a scale per channel along the last
    axis of a depthwise kernel, and transposes and reshapes of weights behind their casts."""
    b = Builder(13, 10)
    x = b.cast_pair(b.input("x", (1, 6, 6, 4)), "i8", 0.02, -1)
    x = b.node("Transpose", [x], "t", perm=[0, 3, 1, 2])
    b.weight(
        "k", b.random.integers(-127, 128, (3, 3, 4, 1)).astype(np.int8), np.full(4, 0.01), axis=2
    )
    w = b.node("Transpose", ["k"], "kt", perm=[2, 3, 0, 1])
    bias = b.random.integers(-900, 900, 4).astype(np.int32)
    b.weight("b", bias, np.full(4, 2e-4))
    c = b.node("Conv", [x, w, "b"], "c", group=4, pads=[1] * 4)
    b.const("l", 0.0, np.float32)
    b.const("h", 6.0, np.float32)
    c = b.cast_pair(b.node("Clip", [c, "l", "h"], "r"), "i8", 6 / 255, -128)
    return File(b.finish(b.node("Transpose", [c], "y", perm=[0, 2, 3, 1])))


def half_unsorted() -> File:
    """ONNX Runtime's converter to float16: nodes in an order that only runtimes sort, and scales
    of float16 around a Concat, which ONNX Runtime alone does not load."""
    b = Builder(19, 11)
    half = np.float16
    b.input("x", (1, 4, 4), half)
    b.const("s", 0.02, half)
    b.codes("z", "u8", 128)
    names = ["s", "z"]
    b.node("QuantizeLinear", ["x", *names], "q")
    b.node("DequantizeLinear", ["q", *names], "d")
    b.node("QuantizeLinear", [b.node("Concat", ["d", "d"], "c", axis=1), *names], "cq")
    b.node("DequantizeLinear", ["cq", *names], "y")
    b.output("y", half)
    sorted_model = b.model(check=False, ir_version=9)
    model = onnx.ModelProto()
    model.CopyFrom(sorted_model)
    del model.graph.node[:]
    model.graph.node.extend(reversed(sorted_model.graph.node))
    return File(model, sorted_model)


def control_flow() -> File:
    """ONNX Runtime with subgraphs enabled: casts in both bodies of an If."""
    b = Builder(17, 12)
    x = b.cast_pair(b.input("x", (2, 4)), "u8", 0.02, 128)
    b.const("zero", 0.0, np.float32)
    b.const("scale", 0.05, np.float32)
    b.codes("point", "u8", 0)
    b.node("Greater", [b.node("ReduceSum", [x], "sum", keepdims=0), "zero"], "positive")

    def body(name: str, op: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node(op, ["x_dq"], [f"{name}_a"], f"{name}_op"),
            helper.make_node("QuantizeLinear", [f"{name}_a", "scale", "point"], [f"{name}_q"]),
            helper.make_node("DequantizeLinear", [f"{name}_q", "scale", "point"], [f"{name}_y"]),
        ]
        y = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, (2, 4))
        return helper.make_graph(nodes, name, [], [y])

    b.node("If", ["positive"], "c", then_branch=body("t", "Relu"), else_branch=body("e", "Abs"))
    b.weight("w", b.random.integers(-127, 128, (4, 3)).astype(np.int8), 0.01)
    return File(b.finish(b.node("MatMul", ["c", "w"], "y")))


FILES: dict[str, Callable[[], File]] = {
    "nncf depthwise i8": nncf_depthwise,
    "nncf depthwise u8": lambda: nncf_depthwise("u8"),
    "nncf i8 weights": lambda: nncf_compressed("i8"),
    "nncf u8 weights": lambda: nncf_compressed("u8"),
    "nncf i4 weights": lambda: nncf_compressed("i4"),
    "nncf negative scales": lambda: nncf_compressed("i8", negative=True),
    "nncf i4 groups": lambda: nncf_groups("i4"),
    "nncf u4 groups": lambda: nncf_groups("u4"),
    "modelopt i4 groups": modelopt_groups,
    "modelopt i8": lambda: modelopt_inputs("i8"),
    "modelopt f8": lambda: modelopt_inputs("f8"),
    "aimet u8": lambda: aimet("u8"),
    "aimet u16": lambda: aimet("u16"),
    "quark i8": lambda: quark_integers("i8"),
    "quark u16": lambda: quark_integers("u16"),
    "vitis i16": lambda: quark_integers("i16", VITIS),
    "quark float16": lambda: quark_floats(TensorProto.FLOAT16),
    "quark bfloat16": lambda: quark_floats(TensorProto.BFLOAT16),
    "keras": keras,
    "half, unsorted": half_unsorted,
    "control flow": control_flow,
}


def integers(model: onnx.ModelProto) -> int:
    """Elements of constants of 8 and fewer bits, of two and more dimensions."""
    narrow = {*CODES.values(), TensorProto.FLOAT8E5M2} - {CODES["i16"], CODES["u16"]}
    found = (t for t in model.graph.initializer if t.data_type in narrow and len(t.dims) > 1)
    return sum(int(np.prod(t.dims)) for t in found)


def feeds(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Normal numbers, and some far outside of what codes hold."""
    random = np.random.default_rng(seed)
    (x,) = model.graph.input
    shape = [dim.dim_value for dim in x.type.tensor_type.shape.dim]
    values = random.normal(0, 1, shape)
    values.reshape(-1)[:2] = (6e4, -6e4) if seed % 2 else (0.0, -0.0)
    return {"x": values.astype(helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type))}
