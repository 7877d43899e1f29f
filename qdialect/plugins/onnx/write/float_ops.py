"""Float ops as ONNX nodes, and movement ops on floats or stored integers alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Operation, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.ops import NNOp, constant_array, constant_of, keys_of, shape_of
from qdialect.ir.ops.component_keys import Keys, inner_keys, role_keys
from qdialect.ir.ops.declare import DECLARED
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type, quant_element
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import PARAMS

if TYPE_CHECKING:
    import numpy as np

    from qdialect.plugins.onnx.write.exporter import Exporter


@dataclass
class Call:
    """One op to write: operand tensors in, result tensor out."""

    exporter: Exporter
    op: Operation
    key: str
    inputs: list[str]
    output: str

    @property
    def values(self) -> dict[str, Any]:
        """The op's properties as Python values."""
        return cast("NNOp", self.op).values

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> None:
        """The op as one node, on its operands unless `inputs` are given."""
        sources = list(inputs) or self.inputs
        self.exporter.graph.node(op_type, sources, [self.output], self.key, **attributes)

    def param(self, position: int, suffix: str) -> str:
        """The name for constant input `position` (1 for the first): the model's own,
        or one made from the key."""
        names = string_list(self.op.attributes.get(PARAMS))
        given = names[position - 1] if position <= len(names) else ""
        return given or f"{self.key}_{suffix}"

    def scalar(self, position: int, suffix: str, value: float) -> str:
        """A number of the operand's type (expressed type if quantized) as an initializer."""
        return self.exporter.graph.array(self.param(position, suffix), self.float_scalar(value))

    def float_scalar(self, value: float) -> np.ndarray[Any, Any]:
        """`value` as a 0-dimensional array of the operand's float type."""
        import numpy as np

        quantized = quant_element(self.op.operands[0].type)
        expressed = quantized.qparams.expressed if quantized else str(self.op.operands[0].type)
        for name, dtype in (("f16", np.float16), ("f64", np.float64)):
            if name == expressed or str(element_type(self.op.operands[0].type)) == name:
                return np.array(value, dtype)
        return np.array(value, np.float32)

    def number(self, suffix: str, value: float) -> str:
        """A number of the operand's type that the op does not have as an input."""
        return self.exporter.graph.array(f"{self.key}_{suffix}", self.float_scalar(value))

    def step(self, op_type: str, suffix: str, *inputs: str, **attributes: Any) -> str:
        """A node on the way to the result; the tensor it gives."""
        made = self.exporter.graph.tensor(f"{self.output}_{suffix}")
        key = f"{self.key}_{suffix}"
        self.exporter.graph.node(op_type, list(inputs), [made], key, **attributes)
        return made

    def piece(
        self,
        op_type: str,
        role: str,
        *inputs: str,
        pieces: Mapping[str, Keys] | None = None,
        **attributes: Any,
    ) -> str:
        """A piece of a composite op that has no form of its own, under the keys of its role;
        `pieces` are the keys of roles that are pieces of this one."""
        keys = role_keys(self.op, role) or (f"{self.key}/{role}",)
        inner = inner_keys(self.op, role) if pieces is None else pieces
        self.exporter.keys.in_pieces(self.key)
        self.exporter.keys.note(keys[0], keys, inner)
        made = self.exporter.graph.tensor(keys[0])
        self.exporter.graph.node(op_type, list(inputs), [made], keys[0], **attributes)
        return made

    def ints(self, position: int, suffix: str, values: list[int]) -> str:
        """A list of integers as an initializer."""
        return self.exporter.graph.ints(self.param(position, suffix), values)

    def axes(
        self, position: int, values: list[int], since: int
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Axes as an input, from opset `since` on, or as an attribute."""
        if self.exporter.opset >= since:
            return (self.ints(position, "axes", values),), {}
        return (), {"axes": values}


Writer = Callable[[Call], None]


def same(op_type: str, *names: str) -> Writer:
    """An op with the same meaning; `names` are the attributes that carry over."""

    def write(call: Call) -> None:
        values = call.values
        call.node(op_type, **{name: values[name] for name in names})

    return write


def attention(call: Call) -> None:
    """`nn.attention` as Attention; the one row of a mask is repeated for each query, which ONNX
    Runtime does not do by itself."""
    inputs, query = list(call.inputs), call.op.operands[0]
    if len(inputs) > 3:
        mask, count = shape_of(call.op.operands[3]), shape_of(query)[-2]
        if (mask[-2] if len(mask) > 1 else 1) != count or count == DYNAMIC:
            if count == DYNAMIC:
                one = call.exporter.graph.ints(f"{call.key}_one", [1])
                length = call.step("Shape", "length", inputs[0], start=-2, end=-1)
                rows = call.step("Concat", "rows", length, one, axis=0)
            else:
                rows = call.exporter.graph.ints(f"{call.key}_rows", [count, 1])
            inputs[3] = call.step("Expand", "mask", inputs[3], rows)
    call.node("Attention", *inputs, scale=call.values["scale"])


def conv(op_type: str) -> Writer:
    """A convolution or its transpose."""

    def write(call: Call) -> None:
        v = call.values
        call.node(
            op_type,
            dilations=v["dilations"],
            group=v["groups"],
            kernel_shape=shape_of(call.op.operands[1])[2:],
            output_padding=v["output_padding"] if any(v.get("output_padding", ())) else None,
            pads=v["pads"],
            strides=v["strides"],
        )

    return write


def clip(call: Call) -> None:
    """`nn.clip` as Clip with constant bounds, before opset 11 attributes."""
    v = call.values
    if call.exporter.opset < 11:
        call.node("Clip", min=v.get("min"), max=v.get("max"))
        return
    bounds = [
        call.scalar(position, name, v[name]) if v.get(name) is not None else ""
        for position, name in ((1, "min"), (2, "max"))
    ]
    while bounds and not bounds[-1]:
        bounds.pop()
    call.node("Clip", call.inputs[0], *bounds)


def hard_swish(call: Call) -> None:
    """`nn.hard_swish` as HardSwish, before opset 14 as a product."""
    if call.exporter.opset >= 14:
        call.node("HardSwish")
        return
    pieces = {role: role_keys(call.op, role) for role in ("scaled", "shifted")}
    gate = call.piece("HardSigmoid", "gate", call.inputs[0], alpha=1 / 6, beta=0.5, pieces=pieces)
    call.node("Mul", call.inputs[0], gate)


def gelu(call: Call) -> None:
    """`nn.gelu` as Gelu, before opset 20 in its pieces."""
    form = call.values["approximate"]
    if call.exporter.opset >= 20:
        call.node("Gelu", approximate=None if form == "none" else form)
        return
    x = call.inputs[0]
    if form == "none":
        # Divided by the root, as runtimes know the function.
        inner = call.piece("Div", "scaled", x, call.number("root", math.sqrt(2.0)))
        bent = call.piece("Erf", "erf", inner)
    else:
        cube = call.piece("Mul", "cube", call.piece("Mul", "square", x, x), x)
        part = call.piece("Mul", "weighted", cube, call.number("cubic", 0.044715))
        total = call.piece("Add", "inner", x, part)
        inner = call.piece("Mul", "scaled", total, call.number("root", math.sqrt(2.0 / math.pi)))
        bent = call.piece("Tanh", "tanh", inner)
    gate = call.piece("Add", "shifted", bent, call.number("one", 1.0))
    half = call.piece("Mul", "halved", x, call.number("half", 0.5))
    call.node("Mul", half, gate)


def swish(call: Call) -> None:
    """`nn.swish` as Swish, before opset 24 as a product."""
    alpha = call.values["alpha"]
    if call.exporter.opset >= 24:
        call.node("Swish", alpha=alpha)
        return
    x = call.inputs[0]
    inner = x if alpha == 1.0 else call.piece("Mul", "scaled", x, call.number("alpha", alpha))
    call.node("Mul", x, call.piece("Sigmoid", "sigmoid", inner))


def rms_norm(call: Call) -> None:
    """`nn.rms_norm` as RMSNormalization, before opset 23 in its pieces."""
    x, axis, epsilon = call.inputs[0], call.values["axis"], call.values["epsilon"]
    if call.exporter.opset >= 23:
        call.node("RMSNormalization", axis=axis, epsilon=epsilon)
        return
    rank = len(shape_of(call.op.operands[0]))
    square = call.piece("Mul", "square", x, x)
    given, attributes = call.axes(2, list(range(axis % rank, rank)), 18)
    mean = call.piece("ReduceMean", "mean_square", square, *given, **attributes)
    shifted = call.piece("Add", "shifted", mean, call.number("epsilon", epsilon))
    root = call.piece("Sqrt", "deviation", shifted)
    call.node("Mul", call.piece("Div", "normalized", x, root), call.inputs[1])


def power(call: Call) -> None:
    """`nn.pow` as Pow with a constant exponent."""
    call.node("Pow", call.inputs[0], call.scalar(1, "exponent", call.values["exponent"]))


def pool(op_type: str) -> Writer:
    """A pooling op; attributes at their default are left out."""

    def write(call: Call) -> None:
        v = call.values
        dilated = any(d != 1 for d in v["dilations"])
        call.node(
            op_type,
            kernel_shape=v["kernel"],
            strides=v["strides"],
            pads=v["pads"],
            dilations=v["dilations"] if dilated else None,
            ceil_mode=int(v["ceil_mode"]) or None,
            count_include_pad=int(v.get("count_include_pad", 0)) or None,
        )

    return write


def lstm(call: Call) -> None:
    """`LSTM`; see `recurrent`."""
    recurrent(call, "LSTM")


def gru(call: Call) -> None:
    """`GRU`; see `recurrent`."""
    reset = int(call.values["linear_before_reset"])
    recurrent(call, "GRU", linear_before_reset=reset or None)


def recurrent(call: Call, op_type: str, *more: str, domain: str = "", **attributes: Any) -> None:
    """The sequence lengths come before initial states and peepholes; states of zeros are left
    out, and so are results that nothing takes, and a bias of zeros that the model does not have:
    kernels treat NaNs in another way with one. `more` are inputs behind the eight of an LSTM."""
    op, exporter = cast("nn.RecurrentOp", call.op), call.exporter
    names = dict(zip(op.operands, call.inputs, strict=True))
    lengths = op.operand_named("lengths")
    if lengths is not None and str(element_type(lengths.type)) not in ("i32", "si32"):
        raise exporter.unsupported(op, f"takes lengths of {lengths.type}; ONNX has i32")

    def named(name: str) -> str:
        value = op.operand_named(name)
        return "" if value is None else names[value]

    constant, numbers = constant_of(op.operands[3]), _numbers(call, op.operands[3])
    zeros = numbers is not None and not numbers.any()
    absent = zeros and constant is not None and not keys_of(constant)
    inputs = [*call.inputs[:3], "" if absent else call.inputs[3], named("lengths")]
    inputs += [_state(call, name) for name in op.STATES]
    inputs += [named("peepholes")] if isinstance(op, nn.LstmOp) else []
    inputs += [*[""] * (8 - len(inputs)), *more] if more else []
    while not inputs[-1]:
        inputs.pop()
    unused = op.results[0].first_use is None and len(op.results) > 1
    outputs, casts = ["" if unused else call.output], list[tuple[str, SSAValue]]()
    requested = exporter.output_names(op, call.key)
    for index, result in enumerate(op.results[1:], 1):
        if result.first_use is None:
            outputs.append("")
        elif quant_element(result.type) is None:
            outputs.append(exporter.claim(result, requested[index]))
        else:
            outputs.append(exporter.graph.tensor(requested[index]))
            casts.append((outputs[-1], result))
    while len(outputs) > 1 and not outputs[-1]:
        outputs.pop()
    exporter.graph.node(
        op_type,
        inputs,
        outputs,
        call.key,
        domain,
        direction=call.values["direction"],
        hidden_size=shape_of(op.operands[2])[2],
        **attributes,
    )
    for real, result in casts:
        exporter.quantize(real, result, f"{real}_quantized", f"{real}_QuantizeLinear")


def _state(call: Call, name: str) -> str:
    """The input of an initial state: one of zeros is none, and one for all of the batch is
    written for each sequence, or repeated as the model runs."""
    op, exporter = cast("nn.RecurrentOp", call.op), call.exporter
    value = op.operand_named(name)
    if value is None:
        return ""
    batch, states = shape_of(op.operands[0])[1], shape_of(value)
    numbers = _numbers(call, value)
    if numbers is not None and not numbers.any():
        return ""
    if states[1] == batch or batch == 1:
        return call.inputs[list(op.operands).index(value)]
    if batch == DYNAMIC:
        one = exporter.graph.ints(f"{call.key}_{name}_one", [1])
        extents = call.step("Shape", f"{name}_extents", call.inputs[0])
        count = call.step("Gather", f"{name}_count", extents, one)
        rows = call.step("Concat", f"{name}_rows", one, count, one, axis=0)
        state = call.inputs[list(op.operands).index(value)]
        return call.step("Expand", f"{name}_each", state, rows)
    if numbers is None:
        raise exporter.unsupported(op, f"has one {name} for a batch of {batch}")
    import numpy as np

    every = np.broadcast_to(numbers, (states[0], batch, states[2]))
    return exporter.graph.array(f"{call.key}_{name}", every)


def _numbers(call: Call, value: SSAValue) -> np.ndarray[Any, Any] | None:
    """The f32 numbers of a constant, or of what its codes stand for."""
    constant, element = constant_of(value), quant_element(value.type)
    if constant is None:
        return None
    numbers = constant_array(constant, call.exporter.ctx.blobs)
    if element is None:
        return numbers
    if not element.qparams.is_per_tensor:
        return None
    offsets = numbers.astype("f8") - element.qparams.zero_point
    return (offsets * element.qparams.scale).astype("f4")


# -- movement -----------------------------------------------------------------------------


def reshape(call: Call) -> None:
    """`nn.reshape` as Reshape to a constant shape.

    A shape with a 0 that is an extent is that of an empty tensor: before opset 14 such a
    tensor is made anew.
    """
    op = cast("nn.ReshapeOp", call.op)
    declared = shape_of(op.results[0])
    target = [-1 if n == DYNAMIC else n for n in op.values.get("shape") or declared]
    zero_is_extent = op.shape is None and 0 in declared
    shape = call.ints(1, "shape", target)
    if zero_is_extent and call.exporter.opset < 14:
        helper = package("onnx.helper")
        zero = helper.make_tensor("value", call.exporter.code(op.results[0]), [1], [0])
        call.node("ConstantOfShape", shape, value=zero)
        return
    call.node("Reshape", call.inputs[0], shape, allowzero=1 if zero_is_extent else None)


def reshape_to(call: Call) -> None:
    """`nn.reshape_to` as Reshape."""
    call.node("Reshape", allowzero=1 if call.values["allowzero"] else None)


def slice_(call: Call) -> None:
    """`nn.slice` as Slice over the dimensions it shortens: with attributes before opset 10."""
    v = call.values
    shape = shape_of(call.op.operands[0])
    bounds = list(zip(v["starts"], v["stops"], v["steps"], strict=True))
    axes = [d for d, b in enumerate(bounds) if not _takes_all(shape[d], *b)] or [0]
    lists = [list(entry) for entry in zip(*(bounds[d] for d in axes), strict=True)]
    starts, stops, steps = lists
    # The largest integers are the beginning where steps are negative: here they are beyond the end.
    largest = (2**31 - 1, 2**63 - 1)
    stops = [n - (k < 0 and n in largest) for n, k in zip(stops, steps, strict=True)]
    if call.exporter.opset < 10:
        if any(step != 1 for step in steps):
            raise call.exporter.unsupported(call.op, "with steps needs opset 10")
        call.node("Slice", starts=starts, ends=stops, axes=axes)
        return
    inputs = [
        call.ints(1, "starts", starts),
        call.ints(2, "ends", stops),
        call.ints(3, "axes", axes),
    ]
    if any(step != 1 for step in steps):
        inputs.append(call.ints(4, "steps", steps))
    call.node("Slice", call.inputs[0], *inputs)


def _takes_all(extent: int, start: int, stop: int, step: int) -> bool:
    if step != 1 or start != 0:
        return False
    return stop >= extent if extent != DYNAMIC else stop == 2**63 - 1


def pad(call: Call) -> None:
    """`nn.pad` as Pad, with attributes before opset 11; the value as stored integer when the
    operand is quantized."""
    v = call.values
    if call.exporter.opset < 11:
        value = v["value"] if v["mode"] == "constant" else None
        call.node("Pad", mode=v["mode"], pads=[*v["low"], *v["high"]], value=value)
        return
    inputs = [call.inputs[0], call.ints(1, "pads", [*v["low"], *v["high"]])]
    if v["mode"] == "constant":
        inputs.append(_pad_value(call, v["value"]))
    call.node("Pad", *inputs, mode=None if v["mode"] == "constant" else v["mode"])


def _pad_value(call: Call, value: float) -> str:
    import numpy as np

    element = element_type(call.op.operands[0].type)
    direct = isinstance(element, UniformType) and call.inputs[0] == call.exporter.tensor(
        call.op.operands[0]
    )
    if not isinstance(element, UniformType) or not direct:
        return call.scalar(2, "value", value)
    storage = element.qparams.storage
    stored = round(value / element.qparams.scale) + element.qparams.zero_point
    stored = min(max(stored, storage.min), storage.max)
    dtype = np.int8 if storage.signed else np.uint8
    return call.exporter.graph.array(call.param(2, "value"), np.array(stored, dtype))


def _same_ops() -> dict[str, Writer]:
    """The rows that ops declare (`ir.ops.declare.onnx`)."""
    rows = ((kind.name, DECLARED[kind.name].onnx) for kind in nn.all_ops())
    return {
        name: same(row.op_type, *row.attributes)
        for name, row in rows
        if row is not None and row.writes
    }


PLAIN: dict[str, Writer] = {
    **_same_ops(),
    **{kind.name: conv("Conv") for kind in nn.CONVOLUTIONS},
    **{kind.name: conv("ConvTranspose") for kind in nn.TRANSPOSED},
    "nn.clip": clip,
    "nn.attention": attention,
    "nn.hard_swish": hard_swish,
    "nn.gelu": gelu,
    "nn.swish": swish,
    "nn.rms_norm": rms_norm,
    "nn.pow": power,
    **{kind.name: pool("MaxPool") for kind in nn.MAX_POOLS},
    **{kind.name: pool("AveragePool") for kind in nn.AVERAGE_POOLS},
    "nn.lstm": lstm,
    "nn.gru": gru,
    "nn.reshape": reshape,
    "nn.reshape_to": reshape_to,
    "nn.slice": slice_,
    "nn.pad": pad,
}
"""How each of these ops is written; `indexing.py` has more."""
