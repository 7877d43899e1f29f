"""Which kernels ONNX Runtime runs for an op of a float module, in each state the op may get.

A kernel execution is a `Work`: the name of a measured kernel, the state it was measured in and
numbers (products, elements read, ...) that its time is a linear function of; the price table has
the nanoseconds of each. The runtime's fusions are part of it: a function behind a convolution is
no execution of its own, one in front of which a product stands neither:

    %0 = nn.conv2d %x, %w : ...      // float: conv window; codes: QLinearConv
    %1 = nn.relu %0 : ...            // nothing: part of the convolution
    %2 = nn.swish %1 : ...           // float: QuickGelu; codes: QLinearSigmoid, QLinearMul
    %3 = nn.reshape %2 : ...         // a node that copies nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import NamedTuple, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.priced_shapes import priced_shape

FLOAT = "float"
DYNAMIC = "dynamic"
CODES = "codes"
"""State of a kernel whose time depends on no sign: what has no weights."""
QUANTIZE = "quant.qcast"
DEQUANTIZE = "quant.dcast"
VIEW = "view"
"""A node that moves nothing."""
TO_LAYOUT, FROM_LAYOUT = "to layout", "from layout"
"""Elements brought into the order of convolutions (in blocks of channels on floats, channels last
on codes), and out of it."""
FUSED = " fused"
"""Behind the name of an op that a float convolution does to its result."""

BLOCK = 16
"""Channels of a result that are computed at a time; fewer take as long as more blocks."""
SUMMED = 4
"""Products of u8 and i8 that are summed at a time."""


WARM, WARM_WEIGHTS = 1 << 16, 1 << 14
"""Elements that stay in the caches of a core from one node of a network to the next, and weights
from one run to the next; those beyond them have a price of their own (`far`)."""


class Work(NamedTuple):
    """One execution of a kernel."""

    kernel: str
    state: str
    terms: Mapping[str, float]


_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_PRODUCTS = ("nn.matmul", "nn.fully_connected")
_VIEWS = frozenset({"nn.reshape", "nn.flatten", "nn.squeeze", "nn.unsqueeze", "nn.expand_dims"})
_CLAMPS = frozenset({"nn.relu", "nn.clip"})

IN_CONVOLUTION = _CLAMPS | {"nn.hard_swish", "nn.hard_sigmoid", "nn.sigmoid", "nn.tanh"}
"""Functions that a float convolution applies to its result: ReLU as it writes it, others in a pass
of their own."""
_IN_PRODUCT = _CLAMPS | {"nn.sigmoid", "nn.tanh", "nn.leaky_relu"}
"""Functions that a float Gemm applies to its result."""

_IMAGES = frozenset(
    {
        *("nn.conv2d", "nn.add", "nn.relu", "nn.clip", "nn.sigmoid", "nn.tanh", "nn.concat"),
        *("nn.swish", "nn.hard_swish", "nn.hard_sigmoid", "nn.max_pool2d", "nn.avg_pool2d"),
        *("nn.global_avg_pool2d", "nn.resize_nearest", "nn.resize_linear"),
    }
)
"""Ops that run in the order of channels that float convolutions have; on codes all do that
take elements in any order."""
_IN_ORDER = frozenset(
    {
        *("nn.reshape", "nn.flatten", "nn.matmul", "nn.fully_connected", "nn.softmax"),
        *("nn.layer_norm", "nn.rms_norm", "nn.gather", "nn.depth_to_space", "nn.space_to_depth"),
    }
)
"""Ops that take channels where the model has them, on codes."""

ON_CODES = frozenset(
    {
        *("nn.add", "nn.mul", "nn.sigmoid", "nn.leaky_relu", "nn.softmax", "nn.concat"),
        *("nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d", "nn.transpose", "nn.split"),
        *("nn.slice", "nn.gather", "nn.resize_nearest", "nn.pad", "nn.clip", "nn.relu"),
        *("nn.tile", "nn.expand", "nn.depth_to_space", "nn.space_to_depth"),
    }
)
"""Other ops with kernels for codes; the rest run on floats between casts."""

_AS_PIECES: Mapping[str, tuple[str, ...]] = {
    "nn.swish": ("nn.sigmoid", "nn.mul"),
    "nn.hard_swish": ("nn.add", "nn.mul"),
    "nn.hard_sigmoid": ("nn.add",),
    "nn.sub": ("nn.add",),
}
"""Ops on codes that run as others, each on as many elements."""
_LIKE: Mapping[str, str] = {
    **dict.fromkeys(("nn.gather", "nn.split", "nn.pad", "nn.tile", "nn.expand"), "nn.slice"),
    **dict.fromkeys(("nn.depth_to_space", "nn.space_to_depth"), "nn.transpose"),
    "nn.resize_linear": "nn.resize_nearest",
    "nn.rms_norm": "nn.layer_norm",
}
"""Ops that take the time of another one."""
_MOVES_OUT = frozenset({"nn.slice", "nn.gather"})
"""Ops that read no more than they write."""


def ways(op: Operation, state: str) -> tuple[tuple[Work, ...], ...]:
    """What an op of a float module may run in `state`, the cheapest of which it does; () in place
    of executions for nothing, and no way where it cannot be in the state or is not known."""
    found = works(op, state)
    if found is None:
        return ()
    if state == FLOAT and op.name == "nn.prelu":
        size = elementwise(_size(op))
        return found, tuple(Work(name, FLOAT, size) for name in ("nn.mul", "nn.maximum"))
    if found and state not in (FLOAT, DYNAMIC) and op.name in ON_CODES:
        return found, *_others_on_codes(cast("NNOp", op))
    return (found,)


def works(op: Operation, state: str) -> tuple[Work, ...] | None:
    """What it runs in a kernel for the state, if there is one."""
    if not isinstance(op, NNOp) or not _are_tensors(op):
        return None
    if op.name == "nn.constant":
        return ()
    if op.name in _CONVOLUTIONS:
        return _convolution(op, state)
    if op.name in _PRODUCTS:
        return _product(op, state)
    if op.name == "nn.conv_transpose2d":
        return _transposed(op, state)
    if state == DYNAMIC:
        return None
    if op.name in _VIEWS:
        return (Work(VIEW, CODES, {"node": 1}),)
    if state == FLOAT:
        return _on_floats(op)
    return _on_codes(op, state)


def cast_work(name: str, elements: int) -> Work:
    """A quantize (`quant.qcast`) or dequantize of so many elements."""
    return Work(name, CODES, elementwise(elements))


def _are_tensors(op: Operation) -> bool:
    return all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def elements(value: SSAValue) -> int:
    """Elements of the shape that a value is priced with."""
    return _count(priced_shape(value))


@cache
def _count(shape: tuple[int, ...]) -> int:
    return prod(max(n, 1) for n in shape)


def _multiple(n: int, unit: int) -> int:
    return -(-n // unit) * unit


# -- contractions ------------------------------------------------------------------------


def contraction(op: Operation, state: str) -> Work | None:
    """The kernel of a convolution or a matrix product (the state: storages of its two operands);
    None for another op."""
    if not isinstance(op, NNOp) or not _are_tensors(op):
        return None
    if op.name in _CONVOLUTIONS:
        kernel, terms = convolution(op, state)
        return Work(kernel, state, terms)
    if op.name in _PRODUCTS:
        kernel, terms = product(op)
        return Work(kernel, state, terms)
    return None


def _convolution(op: NNOp, state: str) -> tuple[Work, ...] | None:
    if state == DYNAMIC or not is_constant(op.operands[1]):
        return None
    kernel, terms = convolution(op, state)
    return (Work(kernel, state, terms), *_layouts(op, state))


def _layouts(op: Operation, state: str) -> Iterator[Work]:
    """The changes of layout in front of an op on images and behind it."""
    kind = FLOAT if state == FLOAT else CODES
    source, result = op.operands[0], op.results[0]
    if not _has_layout(source.owner, state) and priced_shape(source)[1] >= BLOCK:
        yield Work(TO_LAYOUT, kind, elementwise(elements(source)))
    if any(not _has_layout(use.operation, state) for use in result.uses):
        yield Work(FROM_LAYOUT, kind, elementwise(elements(result)))


def _has_layout(owner: object, state: str) -> bool:
    """Whether an op has the order of channels that convolutions have."""
    if not isinstance(owner, NNOp) or not _are_tensors(owner):
        return False
    if owner.name == "nn.concat" and state == FLOAT:
        return all(priced_shape(v)[1] % BLOCK == 0 for v in owner.operands if _is_image(v))
    if state == FLOAT:
        return owner.name in _IMAGES or _gate(owner) is not None
    return owner.name not in _IN_ORDER


def _is_image(value: SSAValue) -> bool:
    return len(priced_shape(value)) == 4


def convolution(op: NNOp, state: str) -> tuple[str, dict[str, float]]:
    """The shape class of a convolution, and what it has to do."""
    _, channels, *_ = priced_shape(op.operands[0])
    count, depth, *taps = priced_shape(op.operands[1])
    groups = max(int(op.values["groups"]), 1)
    result = elements(op.results[0])
    positions = result // max(count, 1)
    window = depth * prod(taps)
    if depth == 1 and groups > 1:
        kernel = "conv depthwise"
    elif groups > 1:
        kernel = "conv grouped"
    elif channels < BLOCK:
        kernel = "conv image"
    else:
        kernel = "conv point" if prod(taps) == 1 else "conv window"
    each = count if kernel == "conv depthwise" else _multiple(count // groups, BLOCK) * groups
    if kernel in ("conv depthwise", "conv image"):
        summed = window
    else:
        summed = prod(taps) * _multiple(depth, BLOCK if state == FLOAT else SUMMED)
    return kernel, {
        "node": 1,
        "product": positions * each * summed,
        "written": result,
        "read": elements(op.operands[0]),
        "window": 0 if prod(taps) == 1 else positions * window * groups,
        "far": max(count * window - WARM_WEIGHTS, 0),
    }


def _transposed(op: NNOp, state: str) -> tuple[Work, ...] | None:
    """A transposed convolution: on codes in phases, whose results are interleaved."""
    if state == DYNAMIC or not is_constant(op.operands[1]):
        return None
    depth, count, *taps = priced_shape(op.operands[1])
    groups = max(int(op.values["groups"]), 1)
    steps = prod(cast("tuple[int, ...]", op.values["strides"]))
    positions = elements(op.operands[0]) // max(depth, 1)
    result, read = elements(op.results[0]), elements(op.operands[0])
    terms = {
        "node": 1,
        "product": positions * _multiple(count * prod(taps), BLOCK) * depth,
        "written": result,
        "read": read,
        "window": positions * count * prod(taps) * groups,
        "far": max(elements(op.operands[1]) - WARM_WEIGHTS, 0),
    }
    if state == FLOAT:
        return (Work("conv transposed", FLOAT, terms),)
    kernel = "conv point" if prod(taps) <= steps and groups == 1 else "conv window"
    return (
        Work(kernel, state, terms),
        Work("nn.transpose", CODES, elementwise(result)),
        *_layouts(op, state),
    )


def _product(op: NNOp, state: str) -> tuple[Work, ...] | None:
    kernel, terms = product(op)
    if kernel == "product of values" and state != FLOAT:
        if state == DYNAMIC:
            return None
        activations = state.partition(" ")[0]
        state = f"{activations} {activations}"
    return (Work(kernel, state, terms),)


def product(op: NNOp) -> tuple[str, dict[str, float]]:
    """The shape class of a matrix product, and what it has to do."""
    a, b = op.operands[:2]
    shape, weights = priced_shape(a), priced_shape(b)
    depth = shape[-1]
    result = elements(op.results[0])
    columns = weights[0] if op.name == "nn.fully_connected" else weights[-1]
    constant = op.name == "nn.fully_connected" or is_constant(b)
    rows = result // max(columns, 1)
    kernel = ("product row" if rows == 1 else "product") if constant else "product of values"
    batches = 1 if constant else _count(priced_shape(op.results[0])[:-2])
    return kernel, {
        "node": 1,
        "batch": batches - 1,
        "product": rows * _multiple(columns, BLOCK) * _multiple(depth, SUMMED),
        "written": result,
        "read": elements(a),
        "far": max(elements(b) - WARM_WEIGHTS, 0),
    }


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a constant, or a constant dequantized."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.name in ("quant.dcast", "quant.qcast"):
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and owner.name == "nn.constant"


# -- others ------------------------------------------------------------------------------


def elementwise(count: float) -> dict[str, float]:
    """What an execution over so many elements has to do."""
    return {"node": 1, "element": count, "far": max(count - WARM, 0)}


def _size(op: Operation) -> int:
    """Elements of its largest operand that varies or result."""
    if op.name in _MOVES_OUT:
        return elements(op.results[0])
    values = [v for v in op.operands if not is_constant(v)]
    return max(map(elements, (*values, *op.results)), default=1)


def _kind(op: NNOp, state: str) -> str:
    """Which measured kernel `op` runs as, between casts or on codes."""
    if op.name == "nn.softmax":
        last = op.values["axis"] in (-1, len(priced_shape(op.operands[0])) - 1)
        return op.name if last else "nn.softmax inner"
    if state == FLOAT and _skips(op):
        return "nn.layer_norm sum"
    return _LIKE.get(op.name, op.name)


def _pool(op: NNOp) -> dict[str, float] | None:
    """Of a pooling: what is compared or added up."""
    if not op.name.startswith(("nn.max_pool", "nn.avg_pool")):
        return None
    window = prod(cast("tuple[int, ...]", op.values["kernel"]))
    result = elements(op.results[0])
    return {**elementwise(elements(op.operands[0])), "window": result * window}


def _plain(op: NNOp, state: str) -> Work:
    return Work(_kind(op, state), state, _pool(op) or elementwise(_size(op)))


def _on_floats(op: NNOp) -> tuple[Work, ...]:
    uses = [use.operation for result in op.results for use in result.uses]
    if _is_in_gate(op, uses):
        return ()
    gate, size = _gate(op), elementwise(_size(op))
    name = op.name if gate is None else _GATES[gate.name]
    source = op.operands[0] if gate is None else _unscaled(gate.operands[0])
    if _has_uses(source, 1 if gate is None else 2):
        if _is_convolution(source.owner) and name in IN_CONVOLUTION:
            return () if name == "nn.relu" else (Work(name + FUSED, FLOAT, size),)
        if _is_fused(op, source.owner):
            return ()
    if gate is not None:
        return (Work(name, FLOAT, size),)
    if len(uses) == 1 and _skips(uses[0], op):
        return ()
    if _is_sum_of_convolution(op):
        return (Work(op.name + FUSED, FLOAT, size),)
    if op.name == "nn.batch_norm":
        return (_scales(op, FLOAT),)
    return (_plain(op, FLOAT),)


_GATES: Mapping[str, str] = {"nn.sigmoid": "nn.swish", "nn.hard_sigmoid": "nn.hard_swish"}
"""What the product of a value and such a function of it is."""


def _gate(op: object) -> NNOp | None:
    """Of a product x * sigmoid(x), which the runtime runs as one op on floats, the sigmoid."""
    if not isinstance(op, NNOp) or op.name != "nn.mul":
        return None
    first, second = op.operands
    for value, function in ((first, second), (second, first)):
        owner = function.owner
        if not isinstance(owner, NNOp) or owner.name not in _GATES:
            continue
        if _unscaled(owner.operands[0]) is value:
            return owner if _has_uses(function, 1) else None
    return None


def _unscaled(value: SSAValue) -> SSAValue:
    """What is multiplied by a constant number for the value alone (x * sigmoid(1.702 x)), or the
    value."""
    made = value.owner
    if not isinstance(made, NNOp) or made.name != "nn.mul" or not _has_uses(value, 1):
        return value
    source, factor = made.operands
    return source if is_constant(factor) and elements(factor) == 1 else value


def _is_in_gate(op: NNOp, uses: Sequence[Operation]) -> bool:
    """Whether an op is the sigmoid of x * sigmoid(x), or what scales its operand."""
    if any(_gate(user) is op for user in uses):
        return True
    gate = uses[0] if len(uses) == 1 else None
    if not isinstance(gate, NNOp) or _unscaled(gate.operands[0]) is gate.operands[0]:
        return False
    return any(_gate(use.operation) is gate for use in gate.results[0].uses)


def _scales(op: NNOp, state: str) -> Work:
    """A batch norm: a convolution of one tap of each channel."""
    size = elements(op.results[0])
    terms = {"node": 1, "product": size, "written": size, "read": size}
    return Work("conv depthwise", state, terms)


def _on_codes(op: NNOp, state: str) -> tuple[Work, ...]:
    if op.name in _CLAMPS and _requantizes(op.operands[0].owner):
        return ()
    if op.name == "nn.batch_norm":
        return (_scales(op, state),)
    if op.name == "nn.prelu":
        size = elementwise(_size(op))
        floats = tuple(Work(name, FLOAT, size) for name in ("nn.mul", "nn.maximum"))
        casts = (cast_work(n, _size(op)) for n in (DEQUANTIZE, DEQUANTIZE, QUANTIZE))
        return (*floats, *casts)
    pieces = _AS_PIECES.get(op.name)
    if pieces is not None:
        return tuple(Work(name, CODES, elementwise(_size(op))) for name in pieces)
    if op.name in ON_CODES:
        return (_plain(op, CODES),)
    return _between_casts(op)


def _others_on_codes(op: NNOp) -> Iterator[tuple[Work, ...]]:
    """What takes the place of an integer kernel where that is faster."""
    if op.name in ("nn.softmax", "nn.avg_pool2d", "nn.global_avg_pool2d"):
        yield _between_casts(op)
    if _kind(op, CODES) == "nn.softmax inner":
        size = elementwise(elements(op.results[0]))
        turn = Work("nn.transpose", CODES, size)
        last = Work("nn.softmax", FLOAT, size)
        casts = [cast_work(name, elements(op.results[0])) for name in (DEQUANTIZE, QUANTIZE)]
        yield Work("nn.softmax", CODES, size), turn, turn
        yield last, turn, turn, *casts


def _between_casts(op: NNOp) -> tuple[Work, ...]:
    """On floats; what is fused there stands alone."""
    reads = [elements(v) for v in op.operands if not is_constant(v) and _is_float(v)]
    work = _plain(op, CODES)._replace(state=FLOAT)
    writes = [elements(v) for v in op.results if _is_float(v)]
    return (
        *(cast_work(DEQUANTIZE, n) for n in reads),
        work,
        *(cast_work(QUANTIZE, n) for n in writes),
    )


def _is_float(value: SSAValue) -> bool:
    return "f" in str(cast("TensorType", value.type).element_type)


def _requantizes(owner: object) -> bool:
    """Whether an op on codes writes them by itself, with bounds for nothing."""
    return isinstance(owner, Operation) and (
        owner.name in (*_CONVOLUTIONS, *_PRODUCTS, "nn.add", "nn.mul", "nn.batch_norm")
    )


def _is_convolution(owner: object) -> bool:
    return isinstance(owner, NNOp) and owner.name in _CONVOLUTIONS


def _has_uses(value: SSAValue, count: int) -> bool:
    return len(list(value.uses)) == count


def _is_fused(op: NNOp, source: object) -> bool:
    """Whether a float op is part of the kernel of another one that it follows."""
    if not isinstance(source, NNOp):
        return False
    if source.name == "nn.fully_connected" and op.name in _IN_PRODUCT:
        return True
    if op.name == "nn.relu" and _is_sum_of_convolution(source):
        return True
    scaled = op.name in ("nn.mul", "nn.div") and elements(op.operands[1]) == 1
    return source.name == "nn.matmul" and scaled and is_constant(op.operands[1])


def _skips(norm: Operation, addition: Operation | None = None) -> bool:
    """Whether a float layer norm does the addition in front of it as well (it takes longer)."""
    made = norm.operands[0].owner
    return (
        norm.name == "nn.layer_norm"
        and isinstance(made, Operation)
        and made.name == "nn.add"
        and addition in (None, made)
        and _has_uses(norm.operands[0], 1)
        and all(elements(v) == elements(made.results[0]) for v in made.operands)
    )


def _is_sum_of_convolution(op: Operation) -> bool:
    """Whether a float addition is part of a convolution that it follows."""
    if op.name != "nn.add":
        return False
    size = elements(op.results[0])
    return all(elements(v) == size for v in op.operands) and any(
        isinstance(v.owner, Operation) and v.owner.name in _CONVOLUTIONS and _has_uses(v, 1)
        for v in op.operands
    )
