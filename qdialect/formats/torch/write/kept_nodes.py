"""Nodes that were kept as they are: PyTorch's own, and of ONNX's those that a program of PyTorch
is read as, that exporters compute shapes and masks with, and that quantizers write.

Inputs come in ONNX order, None where absent.  Any other node is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn import functional as F
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute

from qdialect.dialects.attributes import string_list
from qdialect.dialects.onnx import ELEMENTS, NodeOp, OpaqueType, ProtoAttr
from qdialect.dialects.torch import TorchNodeOp
from qdialect.errors import UnsupportedError, Where
from qdialect.formats.torch.evaluate import argument_of, flattened, overload_of
from qdialect.formats.torch.write.indexing import gather
from qdialect.formats.torch.write.rows import Properties, Results
from qdialect.formats.torch.write.tensor_types import broadcast_to, inner_dtype, integers
from qdialect.ops.base import to_python
from qdialect.ops.locations import op_where
from qdialect.packages import package
from qdialect.quant import element_type
from qdialect.weights import BlobStore

Attributes = Mapping[str, Any]
Function = Callable[..., Results]
"""Of the attributes of a node and its inputs."""


class KeptNode(Module):
    """One ONNX node; `positions` of its inputs, and the torch types of its results."""

    def __init__(
        self,
        op: str,
        attributes: Attributes,
        positions: Sequence[int],
        kinds: Sequence[torch.dtype | None],
    ) -> None:
        super().__init__()
        self.op, self.attributes = op, dict(attributes)
        self.positions, self.kinds = tuple(positions), tuple(kinds)

    def extra_repr(self) -> str:
        """The op and its attributes."""
        return ", ".join([self.op, *(f"{k}={v}" for k, v in self.attributes.items())])

    def forward(self, *values: Tensor) -> Results:
        """The results of the node."""
        inputs: list[Tensor | None] = [None] * (max(self.positions, default=-1) + 1)
        for at, value in zip(self.positions, values, strict=True):
            inputs[at] = value
        found = FUNCTIONS[self.op](self.attributes, *inputs)
        parts = [found] if isinstance(found, Tensor) else list(found)
        parts = [
            part if kind is None else part.to(kind)
            for part, kind in zip(parts, self.kinds, strict=False)
        ]
        return parts[0] if len(self.kinds) == 1 else tuple(parts)


class Operand(NamedTuple):
    """In the place of an operand, among arguments."""

    number: int


class TorchNode(Module):
    """One op of PyTorch: the function and its arguments by name, `Operand` for tensors."""

    def __init__(
        self, target: str, function: Any, arguments: Attributes, kinds: Sequence[torch.dtype]
    ) -> None:
        super().__init__()
        self.target, self.function, self.kinds = target, function, tuple(kinds)
        self.arguments = dict(arguments)

    def extra_repr(self) -> str:
        """The name of the op."""
        return self.target

    def forward(self, *values: Tensor) -> Results:
        """The results of the op, those of lists one after the other."""
        given = {name: _filled(value, values) for name, value in self.arguments.items()}
        found = flattened(self.function(**given))
        parts = [part.to(kind) for part, kind in zip(found, self.kinds, strict=True)]
        return parts[0] if len(parts) == 1 else tuple(parts)


def _filled(argument: Any, values: Sequence[Tensor]) -> Any:
    if isinstance(argument, Operand):
        return values[argument.number]
    if isinstance(argument, list):
        return [_filled(inner, values) for inner in cast("list[Any]", argument)]
    return argument


def torch_layer(op: TorchNodeOp) -> TorchNode:
    """The layer of an op of PyTorch; QError (`cannot-evaluate`) for one that is not run."""
    operands = [Operand(number) for number in range(len(op.operands))]
    arguments = {name: argument_of(v, operands) for name, v in op.arguments.data.items()}
    kinds = [inner_dtype(result.type) for result in op.results]
    return TorchNode(op.target.data, overload_of(op), arguments, kinds)


def kept_layer(op: NodeOp, weights: BlobStore) -> KeptNode:
    """The layer of a node; UnsupportedError where torch has no form of it."""
    domain = op.domain.data.removeprefix("ai.onnx")
    name = f"{domain}.{op.op_type.data}" if domain else op.op_type.data
    if name not in FUNCTIONS or op.captures.data:
        raise UnsupportedError(
            f"the ONNX op '{name}' has no form in PyTorch",
            where=op_where(op) or Where(node=name),
        )
    attributes = _python(op.node_attributes, weights)
    absent = set(op.absent.get_values())
    count = len(op.inputs) + len(absent)
    positions = [n for n in range(count) if n not in absent]
    # Of what the importer did not understand, the type may be unknown: it is what torch gives.
    kinds = [None if _unknown(result.type) else inner_dtype(result.type) for result in op.results]
    return KeptNode(name, attributes, positions, kinds)


def _unknown(type: Attribute) -> bool:
    return isinstance(element_type(type), OpaqueType)


def _python(attributes: DictionaryAttr, weights: BlobStore) -> dict[str, Any]:
    return {name: _value(name, value, weights) for name, value in attributes.data.items()}


def _value(name: str, attribute: Attribute, weights: BlobStore) -> Any:
    if isinstance(attribute, ProtoAttr):
        from qdialect.formats.onnx.write.graph import node_attribute

        if attribute.kind.data != "tensor":
            raise UnsupportedError(f"attribute '{name}' has no form in PyTorch")
        array = package("onnx.numpy_helper").to_array(node_attribute(name, attribute, weights).t)
        return array.reshape(-1).tolist()
    value = to_python(attribute)
    return string_list(attribute) if value is attribute else value


# -- elementwise ----------------------------------------------------------------------


def _plain(function: Callable[..., Tensor]) -> Function:
    """A function of torch, of nodes without attributes."""

    def call(a: Attributes, *inputs: Tensor) -> Tensor:
        return function(*inputs)

    return call


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Function:
    return _plain(lambda *inputs: reduce(function, inputs))


def _cast(a: Attributes, x: Tensor) -> Tensor:
    kind = inner_dtype(ELEMENTS[a["to"]])
    return x.bool() if kind is torch.bool else x.to(kind)


def _divide(x: Tensor, by: Tensor) -> Tensor:
    """Integers truncate towards zero."""
    return x / by if x.is_floating_point() else torch.div(x, by, rounding_mode="trunc")


def _mod(a: Attributes, x: Tensor, by: Tensor) -> Tensor:
    return torch.fmod(x, by) if a.get("fmod") else torch.remainder(x, by)


def _power(x: Tensor, by: Tensor) -> Tensor:
    return (x ** by.to(x.dtype) if x.is_floating_point() else x.double() ** by).to(x.dtype)


def _clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def _is_inf(a: Attributes, x: Tensor) -> Tensor:
    above = (x == torch.inf) & bool(a.get("detect_positive", 1))
    return above | ((x == -torch.inf) & bool(a.get("detect_negative", 1)))


def _along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Parameters of a tensor, or of an axis of it."""
    shape = [1] * x.dim()
    if values.numel() > 1:
        shape[axis] = values.numel()
    return values.reshape(shape)


def _quantize(a: Attributes, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, kind = a.get("axis", 1), torch.uint8 if zero is None else zero.dtype
    steps = (x / _along(scale, x, axis)).round().double()
    steps = steps if zero is None else steps + _along(zero, x, axis)
    limits = torch.iinfo(kind)
    return torch.where(steps.isnan(), limits.min, steps.clamp(limits.min, limits.max)).to(kind)


def _dequantize(a: Attributes, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis = a.get("axis", 1)
    steps = x.double() if zero is None else x.double() - _along(zero, x, axis)
    return steps.to(scale.dtype) * _along(scale, x, axis)


def _fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


def _softmax(a: Attributes, x: Tensor) -> Tensor:
    return x.softmax(a.get("axis", -1))


def _log_softmax(a: Attributes, x: Tensor) -> Tensor:
    return x.log_softmax(a.get("axis", -1))


def _einsum(a: Attributes, *inputs: Tensor) -> Tensor:
    return torch.einsum(a["equation"], *inputs)


# -- shapes and indices -----------------------------------------------------------------


def _shape(a: Attributes, x: Tensor) -> Tensor:
    extents = list(x.shape)[a.get("start", 0) : a.get("end", x.dim())]
    return torch.tensor(extents, dtype=torch.int64, device=x.device)


def _constant_of_shape(a: Attributes, shape: Tensor) -> Tensor:
    value: Any = (a.get("value") or [0.0])[0]
    return torch.full(integers(shape), value, device=shape.device)


def _range(a: Attributes, start: Tensor, stop: Tensor, step: Tensor) -> Tensor:
    first, last, by = (t.item() for t in (start, stop, step))
    count = max(-int(-(last - first) // by), 0)
    return (first + torch.arange(count, device=start.device) * by).to(start.dtype)


def _reshape(a: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    """An extent of 0 is that of the operand."""
    given = enumerate(integers(shape))
    return x.reshape([n if n or a.get("allowzero") else x.size(axis) for axis, n in given])


def _expand(a: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    return broadcast_to(x, integers(shape))


def _concat(a: Attributes, *parts: Tensor) -> Tensor:
    return torch.cat(parts, a["axis"])


def _tile(a: Attributes, x: Tensor, repeats: Tensor) -> Tensor:
    return x.tile(integers(repeats))


def _slice(
    a: Attributes,
    x: Tensor,
    starts: Tensor,
    stops: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    count = starts.numel()
    along = range(count) if axes is None else integers(axes)
    by = [1] * count if steps is None else integers(steps)
    for axis, start, stop, step in zip(along, integers(starts), integers(stops), by, strict=True):
        places = range(*slice(start, stop, step).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def _axes(a: Attributes, axes: Tensor | None) -> list[int]:
    return list(a.get("axes") or ()) if axes is None else integers(axes)


def _squeeze(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    along = _axes(a, axes)
    return x.squeeze(tuple(along)) if along else x.squeeze()


def _unsqueeze(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    along = _axes(a, axes)
    for axis in sorted(axis % (x.dim() + len(along)) for axis in along):
        x = x.unsqueeze(axis)
    return x


def _from_start(indices: Tensor, count: int) -> Tensor:
    """Indices, of which negative ones count from the end."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + count, indices)


def _gather(a: Attributes, x: Tensor, indices: Tensor) -> Tensor:
    return gather(Properties({"axis": a.get("axis", 0)}), x, indices)


def _gather_elements(a: Attributes, x: Tensor, indices: Tensor) -> Tensor:
    axis: int = a.get("axis", 0)
    return x.gather(axis, _from_start(indices, x.size(axis)))


def _gather_nd(a: Attributes, x: Tensor, indices: Tensor) -> Tensor:
    if batch := a.get("batch_dims", 0):
        pairs = zip(x, indices, strict=True)
        return torch.stack([_gather_nd({"batch_dims": batch - 1}, *pair) for pair in pairs])
    return x[tuple(indices.to(torch.int64).unbind(-1))]


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(a: Attributes, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis: int = a.get("axis", 0)
    places, kind = _from_start(indices, x.size(axis)), a.get("reduction", "none")
    if kind == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCE[kind])


def _scatter_nd(a: Attributes, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    kind = a.get("reduction", "none")
    if kind not in ("none", "add"):
        raise UnsupportedError(f"ScatterND that takes the {kind} has no form in PyTorch")
    places = tuple(indices.to(torch.int64).unbind(-1))
    return x.index_put(places, updates, accumulate=kind == "add")


def _one_hot(a: Attributes, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    count = integers(depth)[0]
    places = torch.arange(count, device=indices.device)
    hot = _from_start(indices, count).unsqueeze(-1) == places
    return torch.where(hot, values[1], values[0]).movedim(-1, a.get("axis", -1))


def _trilu(a: Attributes, x: Tensor, diagonal: Tensor | None = None) -> Tensor:
    offset = 0 if diagonal is None else integers(diagonal)[0]
    return torch.triu(x, offset) if a.get("upper", 1) else torch.tril(x, offset)


def _cumulative(a: Attributes, x: Tensor, along: Tensor) -> Tensor:
    axis = integers(along)[0]
    x = x.flip(axis) if a.get("reverse") else x
    total = x.cumsum(axis)
    total = total - x if a.get("exclusive") else total
    return total.flip(axis) if a.get("reverse") else total


# -- reductions and norms -----------------------------------------------------------------


def _reduced(function: Callable[[Tensor, list[int], bool], Tensor]) -> Function:
    def reduce(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
        along = _axes(a, axes)
        if not along and a.get("noop_with_empty_axes"):
            return x
        return function(x, along or list(range(x.dim())), bool(a.get("keepdims", 1)))

    return reduce


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _instance_norm(a: Attributes, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=a.get("epsilon", 1e-5))


FUNCTIONS: Mapping[str, Function] = {
    **{
        name: _plain(getattr(torch, name.lower()))
        for name in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh"),
            *("Erf", "Exp", "Floor", "IsNaN", "Log", "Neg", "Reciprocal", "Relu", "Round"),
            *("Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh"),
            *("Add", "Sub", "Mul", "MatMul", "Greater", "Less", "Where"),
        )
    },
    "And": _plain(torch.logical_and),
    "Not": _plain(torch.logical_not),
    "Or": _plain(torch.logical_or),
    "Xor": _plain(torch.logical_xor),
    "BitwiseAnd": _plain(torch.bitwise_and),
    "BitwiseOr": _plain(torch.bitwise_or),
    "BitwiseXor": _plain(torch.bitwise_xor),
    "Cast": _cast,
    "Clip": _plain(_clip),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "CumSum": _cumulative,
    "DequantizeLinear": _dequantize,
    "Div": _plain(_divide),
    "Einsum": _einsum,
    "Equal": _plain(torch.eq),
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "GreaterOrEqual": _plain(torch.ge),
    "Identity": _plain(torch.clone),
    "InstanceNormalization": _instance_norm,
    "IsInf": _is_inf,
    "LessOrEqual": _plain(torch.le),
    "LogSoftmax": _log_softmax,
    "Max": _folded(torch.maximum),
    "Min": _folded(torch.minimum),
    "Mod": _mod,
    "OneHot": _one_hot,
    "Pow": _plain(_power),
    "QuantizeLinear": _quantize,
    "Range": _range,
    "ReduceL2": _reduced(lambda x, axes, keep: (x * x).sum(axes, keepdim=keep).sqrt()),
    "ReduceLogSumExp": _reduced(lambda x, axes, keep: x.logsumexp(axes, keepdim=keep)),
    "ReduceMax": _reduced(lambda x, axes, keep: x.amax(axes, keepdim=keep)),
    "ReduceMean": _reduced(lambda x, axes, keep: x.mean(axes, keepdim=keep)),
    "ReduceMin": _reduced(lambda x, axes, keep: x.amin(axes, keepdim=keep)),
    "ReduceProd": _reduced(_product),
    "ReduceSum": _reduced(lambda x, axes, keep: x.sum(axes, keepdim=keep)),
    "Reshape": _reshape,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Slice": _slice,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    "com.microsoft.FastGelu": _plain(_fast_gelu),
    "com.microsoft.Gelu": _plain(F.gelu),
}
"""By domain (of others than ONNX) and op type."""
