"""Random ONNX graphs drawn from the schemas of ONNX and of ONNX Runtime: any op of either, of any
type that a kernel takes, and what no schema says how to draw.

    python -m tools.fuzz graphs --schemas --count 1000 --jobs 2 --keep failures/
    python -m tools.fuzz.schema_graphs 7 -o graph.onnx

An op is drawn by name from all that have a kernel on the CPU; formal parameters bind values of
the graph, casts of them, or constants of a related shape; attributes are any of their type. What
the runtime does not run is drawn again. Families that chance does not find have a composer:
quantization per tensor, axis and block to any code type, weights in blocks, recurrent networks,
norms, attention, and bodies. Ordinary ops come from the recipes of `tests/generators/graphs`.
"""

# pyright: basic
from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.generators.graphs import maker, ops, quantization
from tests.generators.graphs.maker import FOREIGN, GraphMaker, Rejected, Value

_STATE: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
OPSETS = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 21, 21, 22, 23, 23, 23, 24, 24, 24)
NAMES = (
    "日本語",
    "é",
    "e\u0301",
    "a\nb",
    "\t",
    "\x1b[31m",
    "\u202e",
    "𝔸",
    "x" * 300,
    "::",
    "$(ls)",
    "<b>",
    "../..",
    "a\\",
    "nul",
    "%s%d",
    "{}",
    ";",
    "\u00a0",
    "1e5",
    "-",
    "__init__",
    "True",
    "é/ü.weight",
)
CHAIN, USERS = (300, 1000, 5000), (200, 1000, 2000)
DEPTH = 3
"""Bodies within bodies."""


def schema_graph(seed: int, count: int | None = None) -> onnx.ModelProto:
    """The model of a seed."""
    return SchemaMaker(seed, count).model()


def features(model: onnx.ModelProto) -> Counter[str]:
    """What a model has of what this generator is for; each counts once."""
    found: set[str] = set()
    known = {tensor.name for tensor in model.graph.initializer}
    given = {value.name for value in model.graph.input}
    found |= {"initializer is input"} if known & given else set()
    for value in model.graph.output:
        found |= {"initializer is output"} if value.name in known - given else set()
        found |= {"input is output"} if value.name in given else set()
    dims = [d for v in model.graph.input for d in v.type.tensor_type.shape.dim]
    found |= {"symbolic dimension"} if any(not d.HasField("dim_value") for d in dims) else set()
    nodes = list(_nodes(model.graph))
    users = Counter(name for node, _ in nodes for name in node.input if name)
    found |= {"chain of 300 and more"} if len(nodes) >= 300 else set()
    found |= {"value with 200 users and more"} if max(users.values(), default=0) >= 200 else set()
    names = Counter(node.name for node, _ in nodes if node.name)
    found |= {"duplicate node names"} if max(names.values(), default=0) > 1 else set()
    made = Counter(name for node, _ in nodes for name in node.output if name)
    found |= {"value name in two bodies"} if max(made.values(), default=0) > 1 else set()
    found |= {"name that is not ASCII"} if any(not name.isascii() for name in made) else set()
    found |= {"empty graph name"} if not model.graph.name else set()
    for node, depth in nodes:
        kind = node.op_type
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        found |= {"optional input left out"} if "" in node.input else set()
        found |= {"body in a body"} if depth > 1 else set()
        if kind in ("If", "Loop", "Scan", "LSTM", "GRU", "RNN", "Attention", "RotaryEmbedding"):
            found.add(f"{node.domain or 'ONNX'} {kind}")
            found |= {f"{kind} {name}" for name in attributes if kind in ("LSTM", "GRU", "RNN")}
        elif kind.startswith("QLinear") or kind.endswith("Integer") or kind == "QGemm":
            found.add("QOperator")
        elif "Norm" in kind or "Attention" in kind or "NBits" in kind or "BlockQ" in kind:
            found.add(kind)
        if "block_size" in attributes and "NBits" not in kind:
            found.add("blocked Q or DQ")
    for tensor in _tensors(model.graph):
        found.add(f"constant {TensorProto.DataType.Name(tensor.data_type)}")
    return Counter(found)


def _nodes(graph: onnx.GraphProto, depth: int = 0) -> Any:
    for node in graph.node:
        yield node, depth
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g, depth + 1)


def _tensors(graph: onnx.GraphProto) -> Any:
    yield from graph.initializer
    for node, _ in _nodes(graph):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from attribute.g.initializer


# -- what a schema allows -----------------------------------------------------------------------

TYPES: dict[str, np.dtype] = {
    f"tensor({name.lower()})": np.dtype(helper.tensor_dtype_to_np_dtype(code))
    for name, code in TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128")
    and code in helper.get_all_tensor_dtypes()
}
FLOATS = [np.dtype(t) for t in (np.float32, np.float16, np.float64, ml_dtypes.bfloat16)]


@cache
def _kernels() -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for kernel in _STATE.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            found.setdefault((kernel.domain, kernel.op_name), []).append(kernel)
    return found


@cache
def _foreign() -> dict[tuple[str, str], Any]:
    listed = _STATE.get_all_operator_schema()
    return {(s.domain, s.name): s for s in listed if s.domain not in ("", "ai.onnx")}


@cache
def operators(opset: int) -> list[tuple[str, str]]:
    """Domain and name of each op that can be drawn: it follows from its inputs, has a kernel or
    a body, and needs no graph."""
    found = [key for key in sorted(_kernels()) if key[0] in (FOREIGN, "ai.onnx.ml")]
    for name in sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if not s.domain}):
        if onnx.defs.has(name, opset, ""):
            schema: Any = onnx.defs.get_schema(name, opset, "")
            random = "NonDeterministic" in str(schema.node_determinism) or "Random" in name
            runs = ("", name) in _kernels() or schema.has_function
            graphs = any("GRAPH" in str(a.type) for a in schema.attributes.values())
            found += [("", name)] * (3 if runs and not random and not graphs else 0)
    return [key for key in found if (key in _foreign() or not key[0])]


def signature(domain: str, name: str, opset: int) -> tuple[Any, dict[str, list[np.dtype]]]:
    """The schema of an op, and which types its type variables take in a kernel."""
    schema = _foreign()[domain, name] if domain else onnx.defs.get_schema(name, opset, "")
    named = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    now = opset if not domain else 1
    for kernel in _kernels().get((domain, name), ()):
        low, high = kernel.version_range
        if low <= now <= high:
            # Several kernels of an op differ in types: what one of them takes.
            for key, allowed in kernel.type_constraints.items():
                both = [t for t in named.get(key, ()) if t in allowed]
                named[key] = both or named.get(key, [])
            break
    return schema, {
        key: [TYPES[t] for t in allowed if t in TYPES] for key, allowed in named.items()
    }


def any_op(g: SchemaMaker, label: str) -> None:
    """An op by its schema: a few tries, each with operands and attributes of its own."""
    domain, name = g.random.choice(operators(g.opset))
    schema, types = signature(domain, name, g.opset)
    for _ in range(10):
        try:
            call(g, domain, name, schema, types)
            return
        except Rejected:
            continue
    raise Rejected(name)


def call(g: SchemaMaker, domain: str, name: str, schema: Any, types: Any) -> None:
    bound, inputs, first = dict[str, list[Any]](), list[str](), None
    for formal in schema.inputs:
        variable = getattr(formal, "type_str", None) or formal.typeStr
        option = str(formal.option)
        if "Optional" in option and g.chance(0.5):
            inputs.append("")
            continue
        for _ in range(g.random.choice((1, 2, 3)) if "Variadic" in option else 1):
            kinds = bound.get(variable) or types.get(variable) or _plain(variable)
            value = operand(g, formal.name, kinds, first)
            first = first or value
            bound[variable] = [value.array.dtype]
            inputs.append(value.name)
    while inputs and not inputs[-1]:
        inputs.pop()
    attributes = {
        key: _attribute(g, key, attribute, first)
        for key, attribute in schema.attributes.items()
        if attribute.required or g.chance(0.4)
    }
    least, most = max(1, schema.min_output), min(schema.max_output, 5)
    count = least if g.chance(0.6) else g.random.randint(least, max(least, most))
    known = {key: value for key, value in attributes.items() if value is not None}
    g.add(g.node(name, inputs, count, domain, **known))


def _plain(variable: str) -> list[np.dtype]:
    if variable not in TYPES:
        raise Rejected("no tensor")
    return [TYPES[variable]]


def operand(g: SchemaMaker, name: str, kinds: Sequence[np.dtype], first: Value | None) -> Value:
    """A value for a formal parameter."""
    kinds = [g.float] if g.float in kinds and g.chance(0.85) else kinds
    kind = g.random.choice(kinds)
    if first is None:
        try:
            return g.pick(kinds)
        except Rejected:
            return g.apply("Cast", [g.pick(ANY).name], to=helper.np_dtype_to_tensor_dtype(kind))
    if all(k in (np.int64, np.int32) for k in kinds) and g.chance(0.8):
        return g.known(g.constant(_integers(g, first), kind))
    shape = first.shape
    if "scale" in name or "zero_point" in name or name.endswith("_zp"):
        shape = g.random.choice(((), (), (1,), shape[1:2], shape[-1:]))
        numbers = quantization.scale(g, first.array) if "scale" in name else 3
        return g.known(g.constant(np.full(shape, numbers).astype(kind)))
    if g.chance(0.5):
        try:
            return g.pick(kinds, lambda a: ops._broadcasts(a.shape, shape))
        except Rejected:
            pass
    shape = g.random.choice((shape, shape, shape[-1:], shape[1:2], (), (1,), shape[1:], shape[::-1],
                             (*shape[-1:], 3), (4, *shape[1:]), shape[:1]))  # fmt: skip
    return g.known(g.constant(g.array(shape, kind)))


def _integers(g: SchemaMaker, x: Value) -> Any:
    """Axes, shapes, bounds, indices or counts."""
    rank, draw = len(x.shape), g.random
    return draw.choice(
        (
            lambda: sorted(draw.sample(range(rank), draw.randint(0, rank))),
            lambda: list(x.shape[::-1]) if g.chance(0.5) else [-1],
            lambda: [0, -1][: max(rank, 1)],
            lambda: [draw.choice((0, 0, 1, 2, -1)) for _ in range(draw.choice((rank, 2 * rank)))],
            lambda: draw.choice((0, 1, 2, -1, 3)),
            lambda: [1] * rank,
            lambda: g.numbers.integers(-1, 2, x.shape[: draw.randint(0, rank)]),
            lambda: [draw.choice((0, 1, 2, 9, -1))],
        )
    )()


def _attribute(g: SchemaMaker, name: str, attribute: Any, first: Value | None) -> Any:
    rank, draw = 0 if first is None else len(first.shape), g.random
    kind = str(attribute.type).rpartition(".")[2]
    if kind == "FLOAT":
        return draw.choice((0.0, 1.0, 0.5, 0.01, 2.0, -0.1, 1e-5, 1e-39))
    if kind == "INT":
        if name == "to" or "type" in name:
            return draw.choice([helper.np_dtype_to_tensor_dtype(t) for t in TYPES.values()])
        return draw.choice((0, 1, 1, 2, -1, 3, 4, draw.randint(-max(rank, 1), max(rank - 1, 0))))
    if kind == "INTS":
        if name == "perm":
            return draw.sample(range(rank), rank)
        count = draw.choice((rank, max(rank - 2, 0), 2 * max(rank - 2, 0), 1, 2, 2 * rank))
        return [draw.choice((0, 1, 1, 1, 2, 3)) for _ in range(count)]
    if kind == "FLOATS":
        return [draw.choice((0.5, 1.0, 2.0)) for _ in range(draw.choice((1, 2, max(rank, 1))))]
    if kind == "STRING":
        # Which words are meant stands in the text alone.
        words = re.findall(r"[\"'`](\w+)[\"'`]", attribute.description)
        return draw.choice(words or ["NOTSET"])
    if kind == "TENSOR":
        return numpy_helper.from_array(g.array([1], draw.choice((np.float32, np.int64, np.uint8))))
    if attribute.required:
        raise Rejected("an attribute of another kind")
    return None


# -- quantization ---------------------------------------------------------------------------------


def code_types(g: SchemaMaker) -> list[np.dtype]:
    """What QuantizeLinear gives in this opset."""
    if g.opset < 10:
        raise Rejected("not yet in this opset")
    _, types = signature("", "DequantizeLinear", g.opset)
    return [t for t in next(iter(types.values())) if t != np.int32]


def qparams(g: SchemaMaker, x: np.ndarray, kind: np.dtype, zero: bool) -> tuple[list[str], dict]:
    """Scale, now and then zero point, and attributes: per tensor, axis or block."""
    shape, attributes, draw = (), dict[str, Any](), g.random
    how = draw.choice(("tensor", "tensor", "axis", "block", "block")) if x.ndim else "tensor"
    if how != "tensor" and g.opset >= 13:
        axis = draw.randrange(-x.ndim, x.ndim)
        attributes["axis"] = axis
        shape = (x.shape[axis],)
        if how == "block" and g.opset >= 21:
            block = draw.choice((1, 2, 3, 4, 16, 32, max(x.shape[axis], 1)))
            attributes["block_size"] = block
            shape = tuple(
                -(-n // block) if i == axis % x.ndim else n for i, n in enumerate(x.shape)
            )
    wide = kind.name.startswith("float") or kind.itemsize > 1
    steps = 65535 if wide else 2 ** int(re.sub(r"\D", "", kind.name))
    scales = [quantization.scale(g, None, steps) for _ in range(prod(shape))]
    half = g.float == np.float16 and g.opset >= 19
    dtype = np.float16 if half else np.float32
    names = [g.constant(np.array(scales).reshape(shape).astype(dtype))]
    if zero:
        signed = kind.name.startswith("float")
        zeros = np.zeros(shape) if signed or g.chance(0.4) else g.array(shape, kind)
        names.append(g.constant(np.asarray(zeros).astype(kind)))
    return names, attributes


def quantize(g: SchemaMaker, label: str) -> None:
    """QuantizeLinear to any code type, mostly with its DequantizeLinear."""
    x, kind = g.pick(), g.random.choice(code_types(g))
    if x.array.dtype not in (np.float32, np.float16)[: 1 + (g.opset >= 19)]:
        x = g.apply("Cast", [x.name], to=TensorProto.FLOAT)
    names, attributes = qparams(g, x.array, kind, not (g.opset >= 21 and g.chance(0.3)))
    extra = dict(attributes)
    if len(names) == 1:
        extra["output_dtype"] = helper.np_dtype_to_tensor_dtype(kind)
    if kind.name.startswith("float8") and g.chance(0.4):
        extra["saturate"] = g.random.randrange(2)
    first = g.node("QuantizeLinear", [x.name, *names], **extra)
    nodes = [first]
    if g.chance(0.85):
        nodes.append(g.node("DequantizeLinear", [first.output[0], *names], **attributes))
    g.add(*nodes)


def weight(g: SchemaMaker, shape: Sequence[int]) -> str:
    """Codes dequantized per tensor, axis or block, and perhaps cast or transposed after."""
    kind = g.random.choice(code_types(g))
    turned = len(shape) == 2 and g.chance(0.3)
    codes = g.array(shape[::-1] if turned else shape, kind)
    names, attributes = qparams(g, codes, kind, g.chance(0.6))
    value = g.apply("DequantizeLinear", [g.constant(codes), *names], **attributes)
    if value.array.dtype != g.float:
        value = g.apply("Cast", [value.name], to=helper.np_dtype_to_tensor_dtype(g.float))
    return (g.apply("Transpose", [value.name]) if turned else value).name


def product(g: SchemaMaker, label: str) -> None:
    """A product with codes, or rows of a table of them."""
    kind = g.random.choice(("MatMul", "MatMul", "Gemm", "Gather", "Conv", "MatMulNBits"))
    if kind == "Gather":
        index = g.pick((np.int64, np.int32)) if g.chance(0.3) else None
        name = index.name if index else g.constant(g.numbers.integers(-4, 4, (2, 3)), np.int64)
        g.apply(kind, [weight(g, [4, g.random.choice((8, 16, 32))]), name])
        return
    x = g.pick(fits=lambda a: a.ndim == 2 if kind == "Gemm" else a.ndim >= 2 + (kind == "Conv"))
    depth, made = x.shape[-1], g.random.choice((1, 3, 8, 16))
    if kind == "MatMulNBits":
        bits, block = g.random.choice((2, 4, 4, 8)), g.random.choice((16, 32, 64))
        count = -(-depth // block)
        names = [x.name, g.constant(g.array([made, count, block * bits // 8], np.uint8))]
        names.append(g.constant(np.abs(g.array([made, count])) * np.float32(0.01), g.float))
        packed = g.array([made, -(-count * bits // 8)], np.uint8)
        names.append(g.constant(packed) if g.chance(0.5) else "")
        names += ["", g.constant(g.array([made]))] if g.chance(0.3) else []
        g.add(g.node(kind, names, domain=FOREIGN, K=depth, N=made, bits=bits, block_size=block))
    elif kind == "Conv":
        shape = [made, x.shape[1], *(g.random.choice((1, 2)) for _ in x.shape[2:])]
        g.apply(kind, [x.name, weight(g, shape)])
    else:
        turned = {"transB": 1} if kind == "Gemm" and g.chance(0.5) else {}
        shape = [made, depth] if turned else [depth, made]
        rest = [g.constant(g.array([made]))] if kind == "Gemm" and g.chance(0.5) else []
        g.apply(kind, [x.name, weight(g, shape), *rest], **turned)


# -- networks of layers ---------------------------------------------------------------------------


def recurrent(g: SchemaMaker, label: str) -> None:
    """LSTM, GRU or RNN with any of its options."""
    kind, draw = g.random.choice(("LSTM", "GRU", "RNN")), g.random
    x, hidden = g.layers(lambda a: a.ndim == 3), g.random.choice((1, 2, 3, 8))
    gates, states = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}[kind]
    direction = draw.choice(("forward", "reverse", "bidirectional"))
    dirs, extra = 1 + (direction == "bidirectional"), dict[str, Any](hidden_size=hidden)
    steps, batch = x.shape[:2]
    state = [dirs, batch, hidden]
    if g.opset >= 14 and g.chance(0.3):
        extra["layout"], (batch, steps), state = 1, x.shape[:2], [x.shape[0], dirs, hidden]
    if dirs > 1 or direction != "forward" or g.chance(0.5):
        extra["direction"] = direction
    if g.chance(0.3):
        words = ("Tanh", "Sigmoid", "Relu", "Affine", "LeakyRelu", "HardSigmoid", "Elu", "Softsign",
                 "Softplus", "ThresholdedRelu", "ScaledTanh")  # fmt: skip
        count = dirs * {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
        extra["activations"] = [draw.choice(words) for _ in range(count)]
        extra |= {"activation_alpha": [0.5] * count, "activation_beta": [0.25] * count}
    if g.chance(0.2):
        extra["clip"] = draw.choice((0.5, 3.0))
    if kind != "RNN" and g.chance(0.3):
        extra["input_forget" if kind == "LSTM" else "linear_before_reset"] = 1
    shapes = [[dirs, gates * hidden, x.shape[2]], [dirs, gates * hidden, hidden]]
    names = [x.name, *(weight(g, s) if g.chance(0.3) else g.constant(g.array(s)) for s in shapes)]
    names.append(g.constant(g.array([dirs, 2 * gates * hidden])) if g.chance(0.5) else "")
    lengths = [draw.randint(1, max(steps, 1)) for _ in range(batch)]
    names.append(g.constant(lengths, np.int32) if g.chance(0.4) else "")
    for shape in (*[state] * states, *[[dirs, 3 * hidden]] * (kind == "LSTM")):
        fit = [v for v in g.values if list(v.shape) == shape and v.array.dtype == g.float]
        given = draw.choice(fit).name if fit and g.chance(0.5) else g.constant(g.array(shape))
        names.append(given if g.chance(0.4) else "")
    while not names[-1]:
        names.pop()
    node = g.node(kind, names, draw.randint(1, 1 + states), **extra)
    if len(node.output) > 1 and g.chance(0.3):
        node.output[0] = ""
    g.add(node)


def norm(g: SchemaMaker, label: str) -> None:
    """Group, RMS and layer norms, with what they may leave out."""
    kinds = {"GroupNormalization": "", "RMSNormalization": "", "LayerNormalization": "",
             "SimplifiedLayerNormalization": "", "SkipLayerNormalization": FOREIGN,
             "SkipSimplifiedLayerNormalization": FOREIGN}  # fmt: skip
    new = {"GroupNormalization": 18, "RMSNormalization": 23, "LayerNormalization": 17}
    kind = g.random.choice([kind for kind in kinds if new.get(kind, 0) <= g.opset])
    x = g.layers(lambda a: a.ndim >= 3)
    extra: dict[str, Any] = (
        {"epsilon": g.random.choice((1e-5, 1e-12, 0.1))} if g.chance(0.6) else {}
    )
    if kind == "GroupNormalization":
        groups = g.random.choice(
            [n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0] or [1]
        )
        count = x.shape[1] if g.opset >= 21 else groups
        names = [g.constant(g.array([count])) for _ in range(2)]
        g.apply(kind, [x.name, *names], num_groups=groups, **extra)
        return
    axis = g.random.randrange(-len(x.shape), len(x.shape)) if not kinds[kind] else -1
    names = [g.constant(g.array(x.shape[axis:]))]
    if kinds[kind]:
        skip = g.pick(fits=lambda a: a.shape == x.shape)
        names = [skip.name, *names] + [g.constant(g.array(x.shape[-1:]))] * g.random.choice((0, 1))
    elif g.chance(0.7):
        extra["axis"] = axis
    if kind == "LayerNormalization" and g.chance(0.5):
        names += names
    if kind == "RMSNormalization" and g.chance(0.3):
        extra["stash_type"] = 1
    outputs = g.random.randint(1, 3) if kind == "LayerNormalization" else 1
    g.add(g.node(kind, [x.name, *names], outputs, kinds[kind], **extra))


def _fold(g: SchemaMaker, x: Value, shape: Sequence[int]) -> Value:
    """Some elements of a value, or an own input, in a shape."""
    fit = [v for v in g.values if v.array.dtype == g.float and prod(v.shape) == prod(shape)]
    source = g.random.choice(fit) if fit else g.add_input(list(shape), g.float)
    return g.apply("Reshape", [source.name, g.constant(list(shape), np.int64)])


def attention(g: SchemaMaker, label: str) -> None:
    """Attention of opset 23 and later, or one of the runtime's, with a cache and masks or not."""
    draw, x = g.random, g.pick()
    batch, heads, queries, keys, size = (
        draw.choice(c) for c in ((1, 2), (2, 4), (1, 3), (2, 5), (4, 8))
    )
    shared = draw.choice((1, heads // 2, heads))
    foreign = ("MultiHeadAttention", "GroupQueryAttention")
    kind = draw.choice(("Attention",) * 3 * (g.opset >= 23) + foreign)
    flat = kind != "Attention" or g.chance(0.5)
    shapes = [
        (batch, heads, queries, size),
        (batch, shared, keys, size),
        (batch, shared, keys, size),
    ]
    if kind != "Attention":
        shared = heads if kind == "MultiHeadAttention" else shared
        keys = keys if kind == "MultiHeadAttention" else queries
        shapes = [(batch, heads, queries, size)] + [(batch, shared, keys, size)] * 2
    if flat:
        shapes = [(b, n, h * d) for b, h, n, d in shapes]
    names = [_fold(g, x, shape).name for shape in shapes]
    cache = [g.constant(g.array([batch, shared, 2, size])) for _ in range(2)]
    if kind == "MultiHeadAttention":
        bias = g.constant(g.array([(heads + 2 * shared) * size])) if g.chance(0.4) else ""
        mask = (
            g.constant(g.numbers.integers(0, 2, (batch, keys)), np.int32) if g.chance(0.3) else ""
        )
        g.add(g.node(kind, [*names, bias, mask], domain=FOREIGN, num_heads=heads))
    elif kind == "GroupQueryAttention":
        past = cache if g.chance(0.5) else ["", ""]
        lengths = g.constant([queries - 1 + 2 * bool(past[0])] * batch, np.int32)
        total = g.constant(queries + 2 * bool(past[0]), np.int32)
        extra = {"local_window_size": 2} if g.chance(0.3) else {}
        extra |= {"softcap": 2.0} if g.chance(0.3) else {}
        node = g.node(kind, [*names, *past, lengths, total], 3, FOREIGN, num_heads=heads,
                      kv_num_heads=shared, **extra)  # fmt: skip
        g.add(node)
    else:
        extra = dict[str, Any](is_causal=draw.randrange(2)) if g.chance(0.5) else {}
        extra |= {"q_num_heads": heads, "kv_num_heads": shared} if flat else {}
        extra |= {"scale": 0.3} if g.chance(0.3) else {}
        extra |= {"softcap": 2.0} if g.chance(0.2) else {}
        extra |= {"qk_matmul_output_mode": draw.randrange(4)} if g.chance(0.2) else {}
        past = cache if g.chance(0.4) else ["", ""]
        shape = draw.choice(
            ((queries, keys + 2 * bool(past[0])), (1, 1, queries, keys + 2 * bool(past[0])))
        )
        mask = g.constant(g.array(shape, draw.choice((np.bool_, g.float)))) if g.chance(0.5) else ""
        names += [mask, *past]
        while not names[-1]:
            names.pop()
        g.apply(kind, names, draw.choice((1, 3, 4)) if past[0] else 1, **extra)


def rotary(g: SchemaMaker, label: str) -> None:
    """RotaryEmbedding of opset 23 and later, or the runtime's."""
    draw = g.random
    batch, heads, steps, size = (draw.choice(c) for c in ((1, 2), (1, 2), (1, 3), (4, 8)))
    flat, domain = g.chance(0.4), draw.choice((*["", ""] * (g.opset >= 23), FOREIGN))
    shape = (batch, steps, heads * size) if flat else (batch, heads, steps, size)
    x = _fold(g, g.pick(), shape)
    part = draw.choice((size, size, size // 2)) if not domain else size
    extra = {"rotary_embedding_dim": part} if part != size else {}
    extra |= {"num_heads": heads} if flat or domain else {}
    extra |= {"interleaved": 1} if g.chance(0.4) else {}
    where = [g.constant(g.numbers.integers(0, 4, (batch, steps)), np.int64)]
    rows = (6, part // 2)
    if not domain and g.chance(0.4):
        where, rows = [], (batch, steps, part // 2)
    tables = [g.constant(g.array(rows)) for _ in range(2)]
    names = [x.name, *where, *tables] if domain else [x.name, *tables, *where]
    g.add(g.node("RotaryEmbedding", names, domain=domain, **extra))


def sequence(g: SchemaMaker, label: str) -> None:
    """A tensor through a sequence of its parts."""
    x = g.pick(fits=lambda a: a.ndim > 0 and a.size > 0)
    axis = g.random.randrange(len(x.shape))
    split = g.node("SplitToSequence", [x.name], axis=axis)
    split.doc_string = maker.FOUR_BITS  # not looked at
    if g.chance(0.5):
        g.add(split, g.node("ConcatFromSequence", [split.output[0]], axis=axis))
    else:
        g.add(split, g.node("SequenceAt", [split.output[0], g.constant(0, np.int64)]))


# -- bodies ----------------------------------------------------------------------------------------


def control(g: SchemaMaker, label: str) -> None:
    """If, Loop or Scan, nested: several results, and bodies that read values from outside."""
    if len(g.scopes) > DEPTH:
        raise Rejected("deep")
    g.random.choice((_if, _loop, _scan))(g)


def _if(g: SchemaMaker) -> None:
    try:
        chosen = g.pick((np.bool_,), lambda a: a.size == 1).name
    except Rejected:
        chosen = g.add_input([], np.bool_).name
    bodies, kinds = list[Any](), [g.float] * g.random.choice((1, 1, 2))
    start, known = g.count, len(g.initializers)
    for side in ("then_branch", "else_branch"):
        # Names of two bodies may be the same, those of initializers may not.
        g.count = start if g.chance(0.5) and len(g.initializers) == known else g.count
        bodies.append(g.body(side, [], lambda: [g.result(kind) for kind in kinds])[0])
    g.count = max(g.count, start) + 50
    g.apply("If", [chosen], len(kinds), then_branch=bodies[0], else_branch=bodies[1])


def _loop(g: SchemaMaker) -> None:
    carried = [g.pick() for _ in range(g.random.choice((1, 1, 2)))]
    formals = [Value(g.name(), np.asarray(0)), Value(g.name(), np.asarray(True))]
    formals += [Value(g.name(), x.array) for x in carried]

    def results() -> list[Value]:
        on = formals[1]
        if g.chance(0.7):
            limit = g.constant(g.random.choice((1, 2)), np.int64)
            on = (
                g.apply("Identity", [on.name])
                if g.chance(0.5)
                else (g.apply("Less", [formals[0].name, limit]))
            )
        kept = [
            g.result(x.array.dtype, x.shape, formal)
            for x, formal in zip(carried, formals[2:], strict=True)
        ]
        return [on, *kept, *(g.stacked(formals) for _ in range(g.random.choice((0, 0, 1))))]

    body, count = g.body("body", formals, results)
    limit = g.constant(g.random.choice((0, 1, 2, 3)), np.int64)
    on = g.random.choice(("", g.constant(g.chance(0.9))))
    g.apply("Loop", [limit, on, *(x.name for x in carried)], count - 1, body=body)


def _scan(g: SchemaMaker) -> None:
    x = g.pick(fits=lambda a: a.ndim >= 1 and 0 < a.shape[0] < 9)
    axis = g.random.randrange(len(x.shape))
    if not x.shape[axis]:
        raise Rejected("nothing")
    kept = g.pick()
    formals = [Value(g.name(), kept.array), Value(g.name(), x.array.take(0, axis))]
    body, count = g.body(
        "body", formals, lambda: [g.stacked(formals, kept.shape), g.stacked(formals)]
    )
    extra: dict[str, Any] = {"scan_input_axes": [axis]} if axis or g.chance(0.3) else {}
    extra |= {"scan_input_directions": [g.random.randrange(2)]} if g.chance(0.4) else {}
    extra |= {"scan_output_directions": [g.random.randrange(2)]} if g.chance(0.4) else {}
    g.apply("Scan", [kept.name, x.name], count, body=body, num_scan_inputs=1, **extra)


def chain(g: SchemaMaker, label: str) -> None:
    """Thousands of ops, one after the other."""
    if len(g.scopes) > 1 or not g.chance(0.5):
        raise Rejected("in a body")
    x, kinds = (
        g.pick(fits=lambda a: a.size < 40),
        ("Relu", "Neg", "Add", "pair", "Identity", "Mul", "Transpose"),
    )
    mix = g.random.sample(kinds, g.random.randint(1, 3))
    names = quantization.qparams(g, None, np.uint8)
    step, last = g.constant(np.asarray(0.9), g.float), x.name
    for index in range(g.random.choice(CHAIN)):
        kind = mix[index % len(mix)]
        if kind == "pair" and g.float == np.float32:
            g.scope.nodes.append(g.node("QuantizeLinear", [last, *names]))
            last, kind = g.scope.nodes[-1].output[0], "DequantizeLinear"
        rest = names if kind == "DequantizeLinear" else [step] if kind in ("Add", "Mul") else []
        g.scope.nodes.append(g.node("Relu" if kind == "pair" else kind, [last, *rest]))
        last = g.scope.nodes[-1].output[0]
    g.scope.values.append(Value(last, x.array))


def fan(g: SchemaMaker, label: str) -> None:
    """One value with thousands of users."""
    if len(g.scopes) > 1 or not g.chance(0.5):
        raise Rejected("in a body")
    x, made = g.pick(fits=lambda a: 0 < a.size < 9), list[str]()
    kinds = g.random.sample(("Relu", "Neg", "Abs", "Identity", "Sigmoid"), 2)
    for index in range(g.random.choice(USERS)):
        g.scope.nodes.append(g.node(kinds[index % 2], [x.name]))
        made.append(g.scope.nodes[-1].output[0])
    g.scope.nodes.append(g.node(g.random.choice(("Sum", "Max", "Mean")), made))
    g.scope.values.append(Value(g.scope.nodes[-1].output[0], x.array))


RECIPES: dict[str, tuple[float, Callable[[Any, str], None]]] = {
    "any": (30.0, any_op),
    "quantize": (12.0, quantize),
    "product": (6.0, product),
    "recurrent": (3.0, recurrent),
    "norm": (4.0, norm),
    "attention": (3.0, attention),
    "rotary": (2.0, rotary),
    "sequence": (0.7, sequence),
    "control": (4.0, control),
    "chain": (0.1, chain),
    "fan": (0.1, fan),
    **{key: (weight / 8, draw) for key, (weight, draw) in ops.RECIPES.items()},
}
ANY = [*TYPES.values()]


class SchemaMaker(GraphMaker):
    """Draws one graph; its floats are mostly of one type."""

    opsets = OPSETS

    def __init__(self, seed: int, count: int | None = None) -> None:
        import random

        self.float = random.Random(f"float {seed}").choices(FLOATS, (12, 5, 1, 1))[0]
        super().__init__(seed, count)

    def recipes(self) -> Any:
        self.dynamic = self.dynamic or self.chance(0.3)
        return RECIPES

    @property
    def count(self) -> int:
        """The number in the next name."""
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        self._count = count

    def name(self) -> str:
        self._count += 1
        odd = self.random.choice((*maker.ODD, *NAMES)) if self.odd and self.chance(0.5) else "v"
        return f"{odd}{self._count}"

    def shape(self) -> list[int]:
        shape = super().shape()
        if shape and self.chance(0.25):
            shape[-1] = self.random.choice((16, 32, 48))
        return shape

    def array(self, shape: Sequence[int], dtype: Any = None) -> np.ndarray:
        kind = np.dtype(dtype or self.float)
        if kind.isbuiltin == 1:
            return super().array(shape, kind)
        if "int" in kind.name:
            limits = ml_dtypes.iinfo(kind)
            codes = self.numbers.integers(int(limits.min), int(limits.max), shape, endpoint=True)
            return np.asarray(codes).astype(kind)
        return np.asarray(np.clip(super().array(shape), -6, 6)).astype(kind)

    def pick(self, kinds: Any = None, fits: Any = None) -> Value:
        return super().pick((self.float,) if kinds is None else kinds, fits)

    def known(self, name: str) -> Value:
        """The value of a name."""
        return next(value for value in reversed(self.values) if value.name == name)

    def add_input(self, shape: Sequence[int] | None = None, dtype: Any = None) -> Value:
        if shape is None and self.chance(0.25):
            return super().add_input()
        array = self.array(self.shape() if shape is None else shape, dtype)
        name, code = self.name(), helper.np_dtype_to_tensor_dtype(array.dtype)
        dims = [self._symbol(n) if self.dynamic and self.chance(0.6) else n for n in array.shape]
        text = f"{list(array.shape)}"
        self.inputs.append(helper.make_tensor_value_info(name, code, dims, doc_string=text))
        self.scopes[0].values.append(Value(name, array))
        return self.scopes[0].values[-1]

    def layers(self, fits: Any) -> Value:
        """A value that fits, or an input of rank 3."""
        try:
            return self.pick(fits=fits)
        except Rejected:
            return self.add_input(
                [self.random.choice((0, 1, 2, 3, 4)) for _ in range(3)], self.float
            )

    def result(self, dtype: Any, shape: Any = None, formal: Value | None = None) -> Value:
        """A value for a body to give: a late one of its own, or of those it takes or reads."""
        fits = [v for v in self.scope.values if v.array.dtype == dtype and shape in (None, v.shape)]
        own = [v for v in fits if not v.constant]
        if own and self.chance(0.9):
            return own[-1]
        if formal is not None and self.chance(0.3):
            return formal
        x = formal or self.pick((dtype,))
        return self.apply(self.random.choice(("Neg", "Identity")), [x.name])

    def stacked(self, formals: Sequence[Value], shape: Any = None) -> Value:
        """A result of a Scan or of all turns: the runtime does not fill one that a body only
        takes."""
        found = self.result(self.float, shape, formals[0] if shape is not None else None)
        taken = any(found is formal for formal in formals)
        return self.apply("Identity", [found.name]) if taken else found

    def body(
        self, name: str, formals: Sequence[Value], results: Any
    ) -> tuple[onnx.GraphProto, int]:
        """A graph with what it takes, and how many results it has."""
        with self.inner() as scope:
            scope.values += formals
            self.grow(self.random.choice((0, 1, 2, 4)))
            made = list[Value]()
            for value in results():  # the runtime does not fill one of two that are the same
                again = any(value.name == other.name for other in made)
                made.append(self.apply("Identity", [value.name]) if again else value)
        return helper.make_graph(scope.nodes, self.random.choice((name, "b", "é")),
            [self._info(v) for v in formals], [self._info(v) for v in made]), len(made)  # fmt: skip

    def _info(self, value: Value) -> onnx.ValueInfoProto:
        code = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        shape = [None] * value.array.ndim if self.dynamic or self.chance(0.5) else value.shape
        return helper.make_tensor_value_info(value.name, code, shape)

    def model(self) -> onnx.ModelProto:
        """With what names, outputs and descriptions may be, too."""
        model, draw = super().model(), self.random
        graph = model.graph
        known = {value.name for value in graph.output}
        for tensor in list(graph.initializer):
            if self.chance(0.02) and tensor.name not in known:
                graph.output.append(
                    helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )
        known |= {value.name for value in graph.output}
        for value in list(graph.input):
            if self.chance(0.04) and value.name not in known:
                graph.output.append(value)
        if model.ir_version >= 4 and self.chance(0.8):
            fixed = {tensor.name for tensor in graph.initializer}
            kept = [value for value in graph.input if value.name not in fixed]
            del graph.input[:]
            graph.input.extend(kept)
        if self.chance(0.1):
            label = draw.choice(("", "same", "日本語", "x" * 200))
            for node, depth in _nodes(graph):
                node.name = label if depth else ""
        if self.chance(0.05):
            graph.name = ""
        if self.chance(0.1):
            model.metadata_props.add(key=draw.choice(NAMES), value=draw.choice(NAMES))
        if self.chance(0.1):
            model.opset_import.append(helper.make_opsetid(draw.choice(("ai.onnx.ml", "other")), 1))
        if self.chance(0.3):
            with suppress(Exception):  # a mistake of its own; the runtime decides
                model = onnx.shape_inference.infer_shapes(model)
        return model


def main() -> None:
    """Write one graph."""
    seed = int(sys.argv[1])
    model = schema_graph(seed)
    if "-o" in sys.argv:
        onnx.save(model, sys.argv[-1])
    print(onnx.printer.to_text(model))
    print(dict(features(model)))


if __name__ == "__main__":
    main()
