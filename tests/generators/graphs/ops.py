"""How the operands and attributes of each op are drawn (`random_onnx`).

Most ops are drawn from their schema: the types it allows, its optional inputs, its attributes
by name.  Ops whose operands must fit one another have a recipe of their own.  A recipe draws
one op or raises Rejected; whether the runtime takes it is found out by running it.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from tests.generators.graphs.bodies import BODIES
from tests.generators.graphs.maker import FOREIGN, Rejected
from tests.generators.graphs.movement import MOVEMENT
from tests.generators.graphs.quantization import CASTS, QOPERATOR

if TYPE_CHECKING:
    from tests.generators.graphs.maker import GraphMaker, Value

Recipe = Callable[["GraphMaker", str], None]

ELEMENTWISE = (
    "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Neg", "Abs", "Exp",
    "Log", "Sqrt", "Reciprocal", "Erf", "Gelu", "Swish", "Softplus", "Elu", "Floor", "Ceil",
    "Round", "Identity", "Sign", "Selu", "Celu", "Softsign", "ThresholdedRelu", "Mish", "Sin",
    "Cos", "Atan", "Asinh", "IsNaN", "IsInf", "Not", "Shrink", "Cast", "Softmax", "LogSoftmax",
    "Hardmax", "Shape", "Size", "NonZero", "Flatten", "Transpose", "ReduceMax", "ReduceMin",
    "ReduceMean", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSumExp", "ArgMax", "ArgMin", "Squeeze", "Unsqueeze", "GlobalAveragePool",
    "GlobalMaxPool", "Dropout", "LRN", "MeanVarianceNormalization", "LpNormalization", "Trilu",
    "DepthToSpace", "SpaceToDepth", "CumSum",
)  # fmt: skip
BINARY = (
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Sum", "Mean", "PRelu", "Equal", "Less",
    "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Mod", "Where", "Clip",
    "BitShift",
)  # fmt: skip


def from_schema(g: GraphMaker, kind: str) -> None:
    """An op by its schema alone: operands that broadcast, attributes by name."""
    try:
        schema = onnx.defs.get_schema(kind, g.opset, "")
    except onnx.defs.SchemaError:
        raise Rejected("not yet in this opset") from None
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, Any] = {}
    inputs: list[str] = []
    first: Value | None = None
    for formal in schema.inputs:
        optional = formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional
        if optional and g.chance(0.4):
            inputs.append("")
            continue
        several = formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        for _ in range(g.random.choice((1, 2, 2, 3)) if several else 1):
            kinds = bound.get(formal.type_str) or _dtypes(allowed.get(formal.type_str), formal)
            name = _parameter(g, formal.name, first)
            if name is None:
                value = _operand(g, kinds, first)
                first = first or value
                bound[formal.type_str] = [value.array.dtype]
                name = value.name
            inputs.append(name)
    while inputs and not inputs[-1]:
        inputs.pop()
    attributes = _attributes(g, schema, first)
    outputs = 1 + (kind == "Dropout" and g.chance(0.2))
    g.apply(kind, inputs, outputs, **attributes)


def _dtypes(allowed: Any, formal: Any) -> list[Any]:
    """Types that a formal parameter takes, float32 mostly."""
    names = [n for n in (allowed or [formal.type_str]) if n.startswith("tensor(")]
    found = [_DTYPES[name[7:-1]] for name in names if name[7:-1] in _DTYPES]
    if not found:
        raise Rejected("no type")
    return found


_DTYPES = {
    "float": np.float32, "float16": np.float16, "double": np.float64, "bool": np.bool_,
    "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
    "int32": np.int32, "int64": np.int64,
}  # fmt: skip


def _operand(g: GraphMaker, kinds: Sequence[Any], first: Value | None) -> Value:
    kinds = (
        [k for k in kinds if k == np.float32] if np.float32 in kinds and g.chance(0.8) else kinds
    )
    if first is None:
        return g.pick(kinds)
    if g.chance(0.5):
        try:
            return g.pick(kinds, lambda a: _broadcasts(a.shape, first.shape))
        except Rejected:
            pass
    keep = g.random.randrange(len(first.shape) + 1)
    shape = [n if g.chance(0.7) else 1 for n in first.shape[keep:]]
    kind = first.array.dtype if first.array.dtype in kinds else g.random.choice(list(kinds))
    name = g.constant(g.array(shape, kind))
    return next(value for value in g.values if value.name == name)


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(n == m or 1 in (n, m) for n, m in pairs)


def _parameter(g: GraphMaker, name: str, first: Value | None) -> str | None:
    """A constant for a formal parameter that is no plain operand."""
    rank = 0 if first is None else len(first.shape)
    if name == "axes":
        return g.constant(_axes(g, first), np.int64)
    if name == "axis" and rank:
        return g.constant(g.random.randrange(-rank, rank), np.int64)
    if name in ("min", "max") and first is not None and g.chance(0.9):
        limit = g.random.choice((0.0, 6.0, 1.0, -1.0, 3.0, 127.0, 1e30))
        low = name == "min"
        if first.array.dtype.kind != "f":
            limit = max(-1.0, min(limit, 100.0))
        return g.constant(np.asarray(min(limit, 1) if low else limit).astype(first.array.dtype))
    if name == "ratio":
        return g.constant(0.3, np.float32)
    if name == "training_mode":
        return g.constant(False)
    if name == "k":
        return g.constant(g.random.choice((0, 1, -1)), np.int64)
    return None


def _axes(g: GraphMaker, first: Value | None) -> list[int]:
    rank = 0 if first is None else len(first.shape)
    ones = [i for i, n in enumerate(first.shape) if n == 1] if first is not None else []
    if ones and g.chance(0.5):
        return g.random.sample(ones, g.random.randint(1, len(ones)))
    axes = g.random.sample(range(rank), g.random.randint(0, rank)) if rank else [0]
    return [axis - rank if rank and g.chance(0.3) else axis for axis in axes]


def _attributes(g: GraphMaker, schema: Any, first: Value | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if attribute.required or g.chance(0.5):
            value = _attribute(g, name, first)
            if value is not None:
                found[name] = value
    return found


def _attribute(g: GraphMaker, name: str, first: Value | None) -> Any:
    rank = 0 if first is None else len(first.shape)
    draw = g.random
    if name == "axis":
        return draw.randrange(-rank, rank) if rank else 0
    if name == "axes":
        return _axes(g, first)
    if name == "perm":
        return draw.sample(range(rank), rank)
    if name == "to":
        return helper.np_dtype_to_tensor_dtype(
            np.dtype(
                draw.choice((np.float32, np.float32, np.int64, np.int32, np.bool_, np.float64))
            )
        )
    if name in ("alpha", "beta", "gamma", "lambd", "bias"):
        return draw.choice((0.0, 1.0, 0.5, 0.01, 1 / 6, 2.0, -0.1, 1e-39))
    if name in ("keepdims", "exclusive", "reverse", "select_last_index", "noop_with_empty_axes",
                "upper", "fmod", "saturate"):  # fmt: skip
        return draw.randrange(2)
    choices: dict[str, Sequence[Any]] = {
        "approximate": ("none", "tanh"), "blocksize": (1, 2), "mode": ("DCR", "CRD"), "p": (1, 2),
        "size": (1, 3, 5), "direction": ("LEFT", "RIGHT"), "start": (0, 1, -1), "end": (1, 2, -1),
    }  # fmt: skip
    return draw.choice(choices[name]) if name in choices else None


# -- ops whose operands must fit one another --------------------------------------------------


def weight(g: GraphMaker, shape: Sequence[int], axis: int = 0) -> str:
    """Floats; or codes that a node dequantizes, per tensor or per index of an axis."""
    if not g.chance(0.6):
        return g.constant(g.array(shape))
    return CASTS["weight"](g, shape, axis)


def convolution(g: GraphMaker, kind: str) -> None:
    """Conv or ConvTranspose of 1 to 3 spatial dimensions."""
    x = g.pick(fits=lambda a: 3 <= a.ndim <= 5)
    channels, spatial = x.shape[1], x.array.ndim - 2
    groups = g.random.choice([n for n in (1, 1, 2, channels) if n and channels % n == 0] or [1])
    made = groups * g.random.choice((1, 2, 3))
    kernel = [g.random.choice((1, 1, 2, 3)) for _ in range(spatial)]
    turned = kind == "ConvTranspose"
    shape = [channels, made // groups] if turned else [made, channels // groups]
    inputs = [x.name, weight(g, [*shape, *kernel], int(turned))]
    if g.chance(0.6):
        inputs.append(bias(g, made))
    attributes = window(g, kernel, turned)
    if groups > 1:
        attributes["group"] = groups
    g.apply(kind, inputs, **attributes)


def window(g: GraphMaker, kernel: Sequence[int], turned: bool = False) -> dict[str, Any]:
    """The attributes of a window that slides."""
    n, found = len(kernel), dict[str, Any]()
    if g.chance(0.5):
        found["kernel_shape"] = list(kernel)
    if g.chance(0.5):
        found["strides"] = [g.random.choice((1, 2)) for _ in kernel]
    if g.chance(0.2):
        found["dilations"] = [g.random.choice((1, 2)) for _ in kernel]
    if g.chance(0.5):
        found["pads"] = [g.random.choice((0, 1)) for _ in range(2 * n)]
    elif g.chance(0.2):
        found["auto_pad"] = g.random.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    if turned and g.chance(0.2):
        found["output_padding"] = [g.random.choice((0, 1)) for _ in kernel]
    return found


def bias(g: GraphMaker, count: int) -> str:
    """Floats or int32 codes."""
    if g.chance(0.5):
        return g.constant(g.array([count]))
    codes = g.constant(g.numbers.integers(-500, 500, count), np.int32)
    scale = g.constant(g.random.choice((0.003, 1e-5, 0.25)), np.float32)
    return g.apply("DequantizeLinear", [codes, scale]).name


def pool(g: GraphMaker, kind: str) -> None:
    x = g.pick((np.float32,) * 3 + (np.int8, np.uint8), lambda a: 3 <= a.ndim <= 5)
    kernel = [g.random.choice((1, 2, 3)) for _ in x.shape[2:]]
    attributes = window(g, kernel) | {"kernel_shape": kernel}
    for name in ("ceil_mode", "count_include_pad", "storage_order"):
        fits = name != ("storage_order" if kind == "AveragePool" else "count_include_pad")
        if fits and g.chance(0.2):
            attributes[name] = 1
    g.apply(kind, [x.name], 1 + (kind == "MaxPool" and g.chance(0.1)), **attributes)


def product(g: GraphMaker, kind: str) -> None:
    """MatMul, Gemm or an Einsum that is one."""
    x = g.pick(fits=lambda a: a.ndim == 2 if kind == "Gemm" else a.ndim >= 1)
    turned = kind == "Gemm" and g.chance(0.5)
    flip = kind == "Gemm" and g.chance(0.15)
    depth, made = x.shape[0 if flip else -1], g.random.choice((1, 2, 3, 4, 8))
    dims = [made, depth] if turned else [depth, made]
    if kind != "Gemm" and g.chance(0.1):
        dims = [depth]
    try:
        other = g.pick(fits=lambda a: a.ndim >= 2 and a.shape[-2:] == tuple(dims)).name
    except Rejected:
        other = ""
    if not other or g.chance(0.7):
        other = weight(g, dims, 0 if turned or len(dims) == 1 else 1)
    inputs, attributes = [x.name, other], dict[str, Any]()
    if kind == "Einsum":
        if x.array.ndim not in (2, 3) or len(dims) != 2:
            raise Rejected("rank")
        attributes["equation"] = "ij,jk->ik" if x.array.ndim == 2 else "bij,jk->bik"
    if kind == "Gemm":
        if g.chance(0.6):
            inputs.append(bias(g, g.random.choice((made, made, 1))))
        attributes.update({k: 1 for k, on in (("transA", flip), ("transB", turned)) if on})
        if g.chance(0.2):
            attributes |= {
                "alpha": g.random.choice((0.5, 1.5)),
                "beta": g.random.choice((0.0, 0.5)),
            }
    if kind == "MatMul" and g.chance(0.2):
        inputs.reverse()
    g.apply(kind, inputs, **attributes)


def normalization(g: GraphMaker, kind: str) -> None:
    """Over channels, or over what an axis begins."""
    if kind == "LayerNormalization":
        x = g.pick(fits=lambda a: a.ndim > 0)
        axis = g.random.randrange(-len(x.shape), len(x.shape))
        rest = [g.constant(g.array(x.shape[axis:]))] * g.random.choice((1, 2))
        g.apply(kind, [x.name, *rest], axis=axis)
        return
    x = g.pick(fits=lambda a: a.ndim >= 2)
    count = [x.shape[1]]
    names = [g.constant(g.array(count)) for _ in range(2)]
    if kind == "BatchNormalization":
        names += [g.constant(g.array(count)), g.constant(np.abs(g.array(count)) + np.float32(0.1))]
    g.apply(kind, [x.name, *names])


def top_k(g: GraphMaker, kind: str) -> None:
    x = g.pick(fits=lambda a: a.ndim > 0)
    axis = g.random.randrange(len(x.shape))
    count = g.constant([g.random.randint(0, x.shape[axis])], np.int64)
    g.apply(kind, [x.name, count], 2, axis=axis, largest=g.random.randrange(2))


def recurrent(g: GraphMaker, kind: str) -> None:
    x = g.pick(fits=lambda a: a.ndim == 3)
    gates, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], g.random.choice((1, 2, 3))
    direction = g.random.choice(("forward", "reverse", "bidirectional"))
    dirs = 2 if direction == "bidirectional" else 1
    names = [
        x.name,
        weight(g, [dirs, gates * hidden, x.shape[2]]),
        weight(g, [dirs, gates * hidden, hidden]),
    ]
    names.append(g.constant(g.array([dirs, 2 * gates * hidden])) if g.chance(0.5) else "")
    steps, batch = x.shape[:2]
    if g.chance(0.4):
        # ONNX Runtime takes no lengths of 0 for all of the batch.
        lengths = [g.random.randint(1, max(steps, 1)) for _ in range(batch)]
        names.append(g.constant(lengths, np.int32))
    else:
        names.append("")
    states = 2 if kind == "LSTM" else 1
    for _ in range(states):
        names.append(g.constant(g.array([dirs, batch, hidden])) if g.chance(0.3) else "")
    while not names[-1]:
        names.pop()
    count = g.random.randint(1, 1 + states)
    g.apply(kind, names, count, hidden_size=hidden, direction=direction)


def fill(g: GraphMaker, kind: str) -> None:
    """Ops that make tensors of shapes or numbers."""
    if kind == "ConstantOfShape":
        shape = g.constant(
            [g.random.choice((0, 1, 2, 3)) for _ in range(g.random.choice((0, 1, 2)))], np.int64
        )
        value = onnx.numpy_helper.from_array(g.array([1], g.random.choice((np.float32, np.int64))))
        g.apply(kind, [shape], value=value)
    elif kind == "Range":
        g.apply(kind, [g.constant(n, np.int64) for n in (0, g.random.randrange(5), 1)])
    else:
        x = g.pick((np.int64, np.int32))
        values = g.constant([0.0, 1.0], np.float32)
        g.apply(kind, [x.name, g.constant(3, np.int64), values])


def foreign(g: GraphMaker, kind: str) -> None:
    """Ops of the runtime's own domain."""
    kind = g.random.choice(("Gelu", "QuickGelu", "FastGelu", "FusedMatMul", "BiasGelu"))
    x = g.pick(fits=lambda a: a.ndim > 0)
    names = [x.name]
    if kind == "BiasGelu":
        names.append(g.constant(g.array(x.shape[-1:])))
    if kind == "FusedMatMul":
        names.append(g.constant(g.array((x.shape[-1], 3))))
    g.add(g.node(kind, names, domain=FOREIGN))


def attention(g: GraphMaker, kind: str) -> None:
    x = g.pick(fits=lambda a: a.ndim == 4)
    g.apply(kind, [x.name] * 3)


RECIPES: dict[str, tuple[float, Recipe]] = {
    **dict.fromkeys(ELEMENTWISE, (1.0, from_schema)),
    **dict.fromkeys(BINARY, (2.0, from_schema)),
    **dict.fromkeys(("Conv", "ConvTranspose"), (9.0, convolution)),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), (4.0, pool)),
    **dict.fromkeys(("MatMul", "Gemm", "Einsum"), (6.0, product)),
    **MOVEMENT,
    **dict.fromkeys(
        ("LayerNormalization", "BatchNormalization", "InstanceNormalization"), (1.5, normalization)
    ),
    "TopK": (1.0, top_k),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (0.4, recurrent)),
    **dict.fromkeys(("ConstantOfShape", "Range", "OneHot"), (0.5, fill)),
    "foreign": (2.0, foreign),
    "Attention": (0.5, attention),
    **QOPERATOR,
    **BODIES,
}  # fmt: skip
