"""Nodes that were kept as they are: PyTorch's own, and ONNX's where torch has the op, one row
an op.

Inputs come in ONNX order, None where absent.  Nodes with subgraphs, of other domains and
without a row are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn import functional as F
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute

from qdialect.dialects.onnx import ELEMENTS, NodeOp, OpaqueType, ProtoAttr, package, string_list
from qdialect.dialects.torch import TorchNodeOp
from qdialect.errors import UnsupportedError, Where
from qdialect.formats.torch.evaluate import argument_of, flattened, overload_of
from qdialect.formats.torch.write.rows import Results
from qdialect.formats.torch.write.tensor_types import broadcast_to, inner_dtype, integers
from qdialect.ops.base import to_python
from qdialect.ops.locations import op_where
from qdialect.quant import element_type
from qdialect.weights import BlobStore

Inputs = Sequence[Tensor | None]
Attributes = Mapping[str, Any]
Function = Callable[[Attributes, Inputs], Results]


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
        found = FUNCTIONS[self.op](self.attributes, inputs)
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
    domain = op.domain.data
    name = f"{domain}.{op.op_type.data}" if domain not in ("", "ai.onnx") else op.op_type.data
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


def _unary(function: Callable[[Tensor], Tensor]) -> Function:
    return lambda a, x: function(_of(x, 0))


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Function:
    return lambda a, x: function(_of(x, 0), _of(x, 1))


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Function:
    def fold(a: Attributes, x: Inputs) -> Tensor:
        result = _of(x, 0)
        for index in range(1, len(x)):
            result = function(result, _of(x, index))
        return result

    return fold


def _of(inputs: Inputs, index: int) -> Tensor:
    value = inputs[index]
    assert value is not None
    return value


def _given(inputs: Inputs, index: int) -> Tensor | None:
    return inputs[index] if index < len(inputs) else None


def _cast(a: Attributes, x: Inputs) -> Tensor:
    value, kind = _of(x, 0), inner_dtype(ELEMENTS[a["to"]])
    return value.bool() if kind is torch.bool else value.to(kind)


def _cast_like(a: Attributes, x: Inputs) -> Tensor:
    return _of(x, 0).to(_of(x, 1).dtype)


def _mod(a: Attributes, x: Inputs) -> Tensor:
    function = torch.fmod if a.get("fmod") else torch.remainder
    return function(_of(x, 0), _of(x, 1))


def _power(a: Tensor, b: Tensor) -> Tensor:
    return (a ** b.to(a.dtype) if a.is_floating_point() else a.double() ** b).to(a.dtype)


def _clip(a: Attributes, x: Inputs) -> Tensor:
    value, low, high = _of(x, 0), _given(x, 1), _given(x, 2)
    value = value if low is None else torch.maximum(value, low)
    return value if high is None else torch.minimum(value, high)


def _is_inf(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    above = (value == torch.inf) & bool(a.get("detect_positive", 1))
    return above | ((value == -torch.inf) & bool(a.get("detect_negative", 1)))


def _mish(x: Tensor) -> Tensor:
    return x * F.softplus(x).tanh()


def _fast_gelu(a: Attributes, x: Inputs) -> Tensor:
    value, bias = _of(x, 0), _given(x, 1)
    return F.gelu(value if bias is None else value + bias, approximate="tanh")


def _bias_gelu(a: Attributes, x: Inputs) -> Tensor:
    return F.gelu(_of(x, 0) + _of(x, 1))


def _quick_gelu(a: Attributes, x: Inputs) -> Tensor:
    return _of(x, 0) * (_of(x, 0) * a.get("alpha", 1.702)).sigmoid()


def _selu(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    alpha, gamma = a.get("alpha", 1.6732631921768188), a.get("gamma", 1.0507010221481323)
    return gamma * torch.where(value > 0, value, alpha * value.clamp(max=0).expm1())


def _celu(a: Attributes, x: Inputs) -> Tensor:
    return F.celu(_of(x, 0), a.get("alpha", 1.0))


def _thresholded(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    return torch.where(value > a.get("alpha", 1.0), value, 0)


def _softmax(a: Attributes, x: Inputs) -> Tensor:
    return _of(x, 0).softmax(a.get("axis", -1))


def _divide(a: Attributes, x: Inputs) -> Tensor:
    """Integers truncate towards zero."""
    first, second = _of(x, 0), _of(x, 1)
    if first.is_floating_point():
        return first / second
    return torch.div(first, second, rounding_mode="trunc")


def _log_softmax(a: Attributes, x: Inputs) -> Tensor:
    return _of(x, 0).log_softmax(a.get("axis", -1))


def _shrink(a: Attributes, x: Inputs) -> Tensor:
    value, lambd, bias = _of(x, 0), a.get("lambd", 0.5), a.get("bias", 0.0)
    below = torch.where(value < -lambd, value + bias, 0)
    return torch.where(value > lambd, value - bias, below)


def _along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Parameters of a tensor, or of an axis of it."""
    shape = [1] * x.dim()
    if values.numel() > 1:
        shape[axis] = values.numel()
    return values.reshape(shape)


def _quantize(a: Attributes, x: Inputs) -> Tensor:
    value, axis, zero = _of(x, 0), a.get("axis", 1), _given(x, 2)
    kind = torch.uint8 if zero is None else zero.dtype
    steps = (value / _along(_of(x, 1), value, axis)).round().double()
    steps = steps if zero is None else steps + _along(zero, value, axis)
    limits = torch.iinfo(kind)
    return torch.where(steps.isnan(), limits.min, steps.clamp(limits.min, limits.max)).to(kind)


def _dequantize(a: Attributes, x: Inputs) -> Tensor:
    codes, scale, axis, zero = _of(x, 0), _of(x, 1), a.get("axis", 1), _given(x, 2)
    steps = codes.double() if zero is None else codes.double() - _along(zero, codes, axis)
    return steps.to(scale.dtype) * _along(scale, codes, axis)


# -- shapes and indices -----------------------------------------------------------------


def _shape(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    extents = list(value.shape)[a.get("start", 0) : a.get("end", value.dim())]
    return torch.tensor(extents, dtype=torch.int64, device=value.device)


def _size(a: Attributes, x: Inputs) -> Tensor:
    return torch.tensor(_of(x, 0).numel(), dtype=torch.int64, device=_of(x, 0).device)


def _constant_of_shape(a: Attributes, x: Inputs) -> Tensor:
    value: Any = (a.get("value") or [0.0])[0]
    return torch.full(integers(_of(x, 0)), value, device=_of(x, 0).device)


def _range(a: Attributes, x: Inputs) -> Tensor:
    start, stop, step = (_of(x, n).item() for n in range(3))
    kind = _of(x, 0).dtype
    count = max(-int(-(stop - start) // step), 0)
    places = torch.arange(count, device=_of(x, 0).device)
    return (start + places * step).to(kind)


def _expand(a: Attributes, x: Inputs) -> Tensor:
    return broadcast_to(_of(x, 0), integers(_of(x, 1)))


def _tile(a: Attributes, x: Inputs) -> Tensor:
    return _of(x, 0).tile(integers(_of(x, 1)))


def _slice(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    starts, stops = integers(_of(x, 1)), integers(_of(x, 2))
    axes, steps = _given(x, 3), _given(x, 4)
    along = range(len(starts)) if axes is None else integers(axes)
    by = [1] * len(starts) if steps is None else integers(steps)
    for axis, start, stop, step in zip(along, starts, stops, by, strict=True):
        places = range(*slice(start, stop, step).indices(value.shape[axis]))
        index = torch.tensor(list(places), dtype=torch.int64, device=value.device)
        value = value.index_select(axis, index)
    return value


def _axes(a: Attributes, x: Inputs) -> list[int]:
    given = _given(x, 1)
    return list(a.get("axes") or ()) if given is None else integers(given)


def _squeeze(a: Attributes, x: Inputs) -> Tensor:
    axes = _axes(a, x)
    return _of(x, 0).squeeze(tuple(axes)) if axes else _of(x, 0).squeeze()


def _unsqueeze(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    axes = _axes(a, x)
    for axis in sorted(axis % (value.dim() + len(axes)) for axis in axes):
        value = value.unsqueeze(axis)
    return value


def _gather(a: Attributes, x: Inputs) -> Tensor:
    value, indices = _of(x, 0), _of(x, 1)
    axis: int = a.get("axis", 0) % value.dim()
    flat = indices.reshape(-1).to(torch.int64)
    taken = value.index_select(axis, torch.where(flat < 0, flat + value.size(axis), flat))
    return taken.reshape((*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :]))


def _gather_elements(a: Attributes, x: Inputs) -> Tensor:
    value, indices = _of(x, 0), _of(x, 1).to(torch.int64)
    axis: int = a.get("axis", 0)
    return value.gather(axis, torch.where(indices < 0, indices + value.size(axis), indices))


def _gather_nd(a: Attributes, x: Inputs) -> Tensor:
    value, indices, batch = _of(x, 0), _of(x, 1).to(torch.int64), a.get("batch_dims", 0)
    if batch:
        found = [_gather_nd({"batch_dims": batch - 1}, p) for p in zip(value, indices, strict=True)]
        return torch.stack(found)
    return value[tuple(indices.unbind(-1))]


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(a: Attributes, x: Inputs) -> Tensor:
    value, indices = _of(x, 0), _of(x, 1).to(torch.int64)
    axis: int = a.get("axis", 0)
    indices = torch.where(indices < 0, indices + value.size(axis), indices)
    kind = a.get("reduction", "none")
    if kind == "none":
        return value.scatter(axis, indices, _of(x, 2))
    return value.scatter_reduce(axis, indices, _of(x, 2), _REDUCE[kind])


def _scatter_nd(a: Attributes, x: Inputs) -> Tensor:
    kind = a.get("reduction", "none")
    if kind not in ("none", "add"):
        raise UnsupportedError(f"ScatterND that takes the {kind} has no form in PyTorch")
    places = tuple(_of(x, 1).to(torch.int64).unbind(-1))
    return _of(x, 0).index_put(places, _of(x, 2), accumulate=kind == "add")


def _one_hot(a: Attributes, x: Inputs) -> Tensor:
    indices, values = _of(x, 0).to(torch.int64), _of(x, 2)
    depth = integers(_of(x, 1))[0]
    axis = a.get("axis", -1)
    places = torch.arange(depth, device=indices.device)
    hot = torch.where(indices < 0, indices + depth, indices).unsqueeze(-1) == places
    return torch.where(hot, values[1], values[0]).movedim(-1, axis)


def _non_zero(a: Attributes, x: Inputs) -> Tensor:
    return _of(x, 0).nonzero().T


def _trilu(a: Attributes, x: Inputs) -> Tensor:
    diagonal = _given(x, 1)
    offset = 0 if diagonal is None else integers(diagonal)[0]
    return torch.triu(_of(x, 0), offset) if a.get("upper", 1) else torch.tril(_of(x, 0), offset)


def _cumulative(a: Attributes, x: Inputs) -> Tensor:
    value, axis = _of(x, 0), integers(_of(x, 1))[0]
    value = value.flip(axis) if a.get("reverse") else value
    total = value.cumsum(axis)
    total = total - value if a.get("exclusive") else total
    return total.flip(axis) if a.get("reverse") else total


def _where(a: Attributes, x: Inputs) -> Tensor:
    return torch.where(_of(x, 0), _of(x, 1), _of(x, 2))


def _concat(a: Attributes, x: Inputs) -> Tensor:
    return torch.cat([part for part in x if part is not None], a["axis"])


# -- reductions and norms -----------------------------------------------------------------


def _reduced(function: Callable[[Tensor, list[int], bool], Tensor]) -> Function:
    def reduce(a: Attributes, x: Inputs) -> Tensor:
        value, axes = _of(x, 0), _axes(a, x)
        if not axes and a.get("noop_with_empty_axes"):
            return value
        along = axes or list(range(value.dim()))
        return function(value, along, bool(a.get("keepdims", 1)))

    return reduce


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _instance_norm(a: Attributes, x: Inputs) -> Tensor:
    return F.instance_norm(_of(x, 0), weight=_of(x, 1), bias=_of(x, 2), eps=a.get("epsilon", 1e-5))


def _group_norm(a: Attributes, x: Inputs) -> Tensor:
    value, scale, bias = _of(x, 0), _of(x, 1), _of(x, 2)
    repeats = value.shape[1] // scale.shape[0]
    weights = (t.repeat_interleave(repeats) for t in (scale, bias))
    return F.group_norm(value, a["num_groups"], *weights, eps=a.get("epsilon", 1e-5))


def _rms_norm(a: Attributes, x: Inputs) -> Tensor:
    value = _of(x, 0)
    axes = list(range(a.get("axis", -1) % value.dim(), value.dim()))
    mean = (value * value).mean(axes, keepdim=True)
    return value / (mean + a.get("epsilon", 1e-5)).sqrt() * _of(x, 1)


def _lp_norm(a: Attributes, x: Inputs) -> Tensor:
    value, axis = _of(x, 0), a.get("axis", -1)
    if a.get("p", 2) == 1:
        return value / value.abs().sum(axis, keepdim=True)
    return value / (value * value).sum(axis, keepdim=True).sqrt()


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def _einsum(a: Attributes, x: Inputs) -> Tensor:
    return torch.einsum(a["equation"], *(part for part in x if part is not None))


def _global_max_pool(x: Tensor) -> Tensor:
    return x.amax(tuple(range(2, x.dim())), keepdim=True)


FUNCTIONS: Mapping[str, Function] = {
    **{
        name: _unary(function)
        for name, function in {
            "Abs": torch.abs,
            "Acos": torch.acos,
            "Acosh": torch.acosh,
            "Asin": torch.asin,
            "Asinh": torch.asinh,
            "Atan": torch.atan,
            "Atanh": torch.atanh,
            "Ceil": torch.ceil,
            "Cos": torch.cos,
            "Cosh": torch.cosh,
            "Erf": torch.erf,
            "Exp": torch.exp,
            "Floor": torch.floor,
            "GlobalMaxPool": _global_max_pool,
            "Identity": torch.clone,
            "IsNaN": torch.isnan,
            "Log": torch.log,
            "Mish": _mish,
            "Neg": torch.neg,
            "Not": torch.logical_not,
            "Reciprocal": torch.reciprocal,
            "Relu": torch.relu,
            "Round": torch.round,
            "Sigmoid": torch.sigmoid,
            "Sign": torch.sign,
            "Sin": torch.sin,
            "Sinh": torch.sinh,
            "Softsign": F.softsign,
            "Sqrt": torch.sqrt,
            "Tan": torch.tan,
            "Tanh": torch.tanh,
        }.items()
    },
    **{
        name: _binary(function)
        for name, function in {
            "And": torch.logical_and,
            "Or": torch.logical_or,
            "Xor": torch.logical_xor,
            "Add": torch.add,
            "Sub": torch.sub,
            "Mul": torch.mul,
            "BitwiseAnd": torch.bitwise_and,
            "BitwiseOr": torch.bitwise_or,
            "BitwiseXor": torch.bitwise_xor,
            "Equal": torch.eq,
            "Greater": torch.gt,
            "GreaterOrEqual": torch.ge,
            "Less": torch.lt,
            "LessOrEqual": torch.le,
            "MatMul": _matmul,
            "Pow": _power,
        }.items()
    },
    "Cast": _cast,
    "CastLike": _cast_like,
    "Celu": _celu,
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "CumSum": _cumulative,
    "DequantizeLinear": _dequantize,
    "Div": _divide,
    "Einsum": _einsum,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "IsInf": _is_inf,
    "LogSoftmax": _log_softmax,
    "LpNormalization": _lp_norm,
    "Max": _folded(torch.maximum),
    "Min": _folded(torch.minimum),
    "Mod": _mod,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "QuantizeLinear": _quantize,
    "RMSNormalization": _rms_norm,
    "Range": _range,
    "ReduceL1": _reduced(lambda x, axes, keep: x.abs().sum(axes, keepdim=keep)),
    "ReduceL2": _reduced(lambda x, axes, keep: (x * x).sum(axes, keepdim=keep).sqrt()),
    "ReduceLogSum": _reduced(lambda x, axes, keep: x.sum(axes, keepdim=keep).log()),
    "ReduceLogSumExp": _reduced(lambda x, axes, keep: x.logsumexp(axes, keepdim=keep)),
    "ReduceMax": _reduced(lambda x, axes, keep: x.amax(axes, keepdim=keep)),
    "ReduceMean": _reduced(lambda x, axes, keep: x.mean(axes, keepdim=keep)),
    "ReduceMin": _reduced(lambda x, axes, keep: x.amin(axes, keepdim=keep)),
    "ReduceProd": _reduced(_product),
    "ReduceSum": _reduced(lambda x, axes, keep: x.sum(axes, keepdim=keep)),
    "ReduceSumSquare": _reduced(lambda x, axes, keep: (x * x).sum(axes, keepdim=keep)),
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Selu": _selu,
    "Shape": _shape,
    "Shrink": _shrink,
    "Size": _size,
    "Slice": _slice,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Sum": _folded(torch.add),
    "ThresholdedRelu": _thresholded,
    "Tile": _tile,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
    "com.microsoft.BiasGelu": _bias_gelu,
    "com.microsoft.FastGelu": _fast_gelu,
    "com.microsoft.Gelu": lambda a, x: F.gelu(_of(x, 0)),
    "com.microsoft.QuickGelu": _quick_gelu,
}
"""By domain (of others than ONNX) and op type."""
