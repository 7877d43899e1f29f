"""Runs what qdialect compiles for the accelerators of this package, on integers.

A tensor is integers (codes less their zero point) and the number that one stands for. What an op
computes is an exact number until it is stored: then it is rounded half to even, in integers. A
composite is microcode of such ops, each of which stores as `nn.qparams` of the composite says.
"""

# pyright: basic
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

import qdialect as qd
from qdialect.algebra.qparams import QParams
from qdialect.ir.ops import ConstantOp, constant_array, shape_of
from qdialect.ir.ops.component_qparams import component_types
from qdialect.ir.quant import quant_element

Array = Any
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "exp": math.exp,
    "erf": math.erf,
    "tanh": math.tanh,
    "sqrt": lambda x: math.sqrt(max(x, 0.0)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "hard_swish": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
}


@dataclass
class Tensor:
    """The numbers `n * step`; `n` are integers."""

    n: Array
    step: Fraction = Fraction(1)

    def shaped(self, change: Callable[[Array], Array]) -> Tensor:
        """The same numbers elsewhere."""
        return Tensor(change(self.n), self.step)


def number(value: float) -> Tensor:
    """A number of f32, exactly."""
    return Tensor(np.array(1), Fraction(float(np.float32(value))))


def numbers(values: Array) -> Tensor:
    """Numbers of f32, exactly: integers and one power of two."""
    fractions = [Fraction(float(v)) for v in np.asarray(values, np.float32).ravel()]
    common = max((f.denominator for f in fractions), default=1)
    whole = [f.numerator * (common // f.denominator) for f in fractions]
    return Tensor(np.array(whole, object).reshape(np.shape(values)), Fraction(1, common))


def _common(a: Tensor, b: Tensor) -> tuple[Array, Array, Fraction]:
    """Integers of both that stand for multiples of the same number."""
    step = Fraction(math.gcd(a.step.numerator, b.step.numerator)) / math.lcm(
        a.step.denominator, b.step.denominator
    )
    return (
        a.n.astype(object) * int(a.step / step),
        b.n.astype(object) * int(b.step / step),
        step,
    )


def add(a: Tensor, b: Tensor, sign: int = 1) -> Tensor:
    x, y, step = _common(a, b)
    return Tensor(x + sign * y, step)


def mul(a: Tensor, b: Tensor) -> Tensor:
    return Tensor(a.n * b.n, a.step * b.step)


def halves(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator to the nearest integer, halves to even; the latter is positive."""
    whole = (2 * numerator + denominator) // (2 * denominator)
    is_half = (2 * numerator + denominator) % (2 * denominator) == 0
    return whole - (is_half & (whole % 2 == 1))


def stored(value: Tensor, q: QParams, over: Tensor | None = None) -> Tensor:
    """A number, or its quotient by another, on the codes of a type."""
    ratio = value.step / Fraction(q.scale)
    n = np.asarray(value.n)
    if over is None and n.dtype != object and n.size > 4096:
        some, place = np.unique(n, return_inverse=True)  # the same numbers many times
        return Tensor(
            stored(Tensor(some.astype(object), value.step), q).n[place].reshape(n.shape),
            Fraction(q.scale),
        )
    n, below = n.astype(object) * ratio.numerator, np.array(ratio.denominator, object)
    if over is not None:
        ratio /= over.step
        sign = np.where(over.n < 0, -1, 1).astype(object)
        n = value.n.astype(object) * ratio.numerator * sign
        below = np.maximum(abs(over.n), 0).astype(object) * ratio.denominator
        n = np.where(below == 0, np.sign(n) * 2**40, n)  # 1 / 0 saturates
        below = np.where(below == 0, 1, below)
    low, high = q.storage.min - q.zero_point, q.storage.max - q.zero_point
    codes = np.clip(halves(n, below), low, high)
    return Tensor(np.asarray(codes).astype(np.int64), Fraction(q.scale))


def table(function: Callable[[float], float], x: Tensor, q: QParams) -> Tensor:
    """A function of codes, looked up in a table that its two qparams make."""
    some, place = np.unique(np.asarray(x.n), return_inverse=True)
    low, high = q.storage.min - q.zero_point, q.storage.max - q.zero_point
    entries = [round(function(float(n * x.step)) / q.scale) for n in some.tolist()]
    found = np.clip(np.array(entries, object), low, high).astype(np.int64)
    return Tensor(found[place].reshape(np.shape(x.n)), Fraction(q.scale))


def dot(x: Tensor, w: Tensor, step: Fraction | None = None) -> Tensor:
    """Products summed in 64 bits, which is more than the accelerators have."""
    return Tensor(x.n.astype(np.int64) @ w.n.astype(np.int64), step or x.step * w.step)


def accumulated(x: Tensor, w: Tensor) -> Tensor:
    """x @ w^T as an accumulator has it: its scale is a product of f64."""
    return dot(x, w.shaped(lambda n: n.T), Fraction(float(x.step) * float(w.step)))


def windows(n: Array, kernel: Sequence[int], v: Mapping[str, Any], pad: int = 0) -> Array:
    """Integers below each place of a window, which is in the last dimensions."""
    rank = len(kernel)
    pads = list(zip(v["pads"][:rank], v["pads"][rank:], strict=True))
    n = np.pad(n, [(0, 0), (0, 0), *pads], constant_values=pad)
    dilations = v.get("dilations", (1,) * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(n, spans, tuple(range(2, 2 + rank)))
    places = [slice(None), slice(None), *(slice(None, None, s) for s in v["strides"])]
    return found[(*places, *(slice(None, None, d) for d in dilations))]


def convolution(n: Array, weight: Array, v: Mapping[str, Any]) -> Array:
    """Sums of products, by group."""
    rank, groups = n.ndim - 2, v["groups"]
    kernel = weight.shape[2:]
    seen = windows(n, kernel, v)
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    sums = [
        np.tensordot(part, w, ((1, *axes), (1, *range(2, 2 + rank))))
        for part, w in zip(np.split(seen, groups, 1), np.split(weight, groups), strict=True)
    ]
    return np.moveaxis(np.concatenate(sums, -1), -1, 1)


def mean(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    count = math.prod(x.n.shape[axis] for axis in axes)
    return Tensor(x.n.sum(axis=axes, keepdims=True), x.step / count)


class Microcode:
    """Composites whole: `self(role, value)` stores a value as the op says of that role."""

    def __init__(self, op: Operation, result: QParams, prefix: str = "") -> None:
        self.op, self.values, self.prefix = op, getattr(op, "values", {}), prefix
        self.types = {role: kind.qparams for role, kind in component_types(op).items()}
        self.result = result
        self.used: set[str] = set()

    def of(self, role: str) -> QParams:
        self.used.add(self.prefix + role)
        return self.types[self.prefix + role]

    def __call__(self, role: str, value: Tensor, over: Tensor | None = None) -> Tensor:
        return stored(value, self.of(role), over)

    def function(self, role: str, name: str, x: Tensor) -> Tensor:
        return table(_FUNCTIONS[name], x, self.of(role))

    def softmax(self, x: Tensor, axis: int | None = None, result: QParams | None = None) -> Tensor:
        axis = self.values["axis"] if axis is None else axis
        e = self.function(
            "exp", "exp", self("sub_max", x.shaped(lambda n: n - n.max(axis, keepdims=True)))
        )
        return stored(
            e, result or self.result, self("sum", e.shaped(lambda n: n.sum(axis, keepdims=True)))
        )

    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
        rank = x.n.ndim
        axes = tuple(range(self.values["axis"] % rank, rank))
        centered = self("centered", add(x, self("mean", mean(x, axes)), -1))
        variance = self("variance", mean(self("square", mul(centered, centered)), axes))
        shifted = self("shifted", add(variance, number(self.values["epsilon"])))
        normal = self("normalized", centered, self.function("deviation", "sqrt", shifted))
        if bias is None:
            return stored(mul(normal, scale), self.result)
        return stored(add(self("scaled", mul(normal, scale)), bias), self.result)

    def gelu(self, x: Tensor) -> Tensor:
        if self.values["approximate"] == "tanh":
            cube = self("cube", mul(self("square", mul(x, x)), x))
            inner = self("inner", add(x, self("weighted", mul(cube, number(0.044715)))))
            gate = self.function(
                "tanh", "tanh", self("scaled", mul(inner, number(math.sqrt(2 / math.pi))))
            )
        else:
            gate = self.function("erf", "erf", self("scaled", mul(x, number(math.sqrt(0.5)))))
        shifted = self("shifted", add(gate, number(1.0)))
        return stored(mul(self("halved", mul(x, number(0.5))), shifted), self.result)

    def lrn(self, x: Tensor) -> Tensor:
        v, square = self.values, self("square", mul(x, x))
        before = (v["size"] - 1) // 2
        pads = [(0, 0)] * x.n.ndim
        pads[1] = (before, v["size"] - 1 - before)
        wide, channels = np.pad(square.n, pads), x.n.shape[1]
        total = sum(wide[:, k : k + channels] for k in range(v["size"]))
        scaled = self(
            "scaled", mul(self("mean", Tensor(total, square.step / v["size"])), number(v["alpha"]))
        )
        shifted = self("shifted", add(scaled, number(v["bias"])))
        power = table(lambda y: y ** -v["beta"] if y > 0 else math.inf, shifted, self.of("power"))
        return stored(mul(x, power), self.result)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        products = dot(
            q, k.shaped(lambda n: n.swapaxes(2, 3)), Fraction(float(q.step) * float(k.step))
        )
        scores = self("scaled", mul(products, number(self.values["scale"])))
        if mask is not None:
            scores = self("masked", add(scores, mask))
        chances = self.of("softmax")
        inner = Microcode(self.op, chances, "softmax/")
        weights = inner.softmax(scores, -1, chances)
        self.used |= inner.used
        return stored(dot(weights, v), self.result)

    # -- layers: every step of a direction --------------------------------------------------

    def layer(
        self,
        operands: Sequence[Tensor],
        types: Sequence[QParams],
        step: Callable[..., Any],
        states: int,
    ) -> list[Tensor]:
        x, w, r, b, *more = operands
        hidden, batch = r.n.shape[2], x.n.shape[1]
        rows: list[list[Tensor]] = [[] for _ in range(x.n.shape[0])]
        ends: list[list[Tensor]] = []
        way = self.values["direction"]
        for d in range(w.n.shape[0]):
            zero = Tensor(np.zeros((batch, hidden), np.int64))
            now = [m.shaped(lambda n, d=d: n[d]) for m in more[:states]] or [zero] * states
            at = [v.shaped(lambda n, d=d: n[d]) for v in (w, r)]
            order = range(len(rows)) if way != "reverse" and d == 0 else reversed(range(len(rows)))
            for t in order:
                now = step(x.shaped(lambda n, t=t: n[t]), now, *at, b.n[d], b.step)
                rows[t].append(now[0])
            ends.append(now)
        shown = [Tensor(np.stack([s.n for s in row]), row[0].step) for row in rows]
        found = [stored(Tensor(np.stack([s.n for s in shown]), shown[0].step), types[0])]
        for n, q in enumerate(types[1:]):
            found.append(stored(Tensor(np.stack([e[n].n for e in ends]), ends[0][n].step), q))
        return found

    def lstm(self, *operands: Tensor, types: Sequence[QParams]) -> list[Tensor]:
        def step(
            x: Tensor, states: Sequence[Tensor], w: Tensor, r: Tensor, b: Array, unit: Fraction
        ) -> list[Tensor]:
            h, c = states
            rows = w.n.shape[0]
            total = self("total", add(accumulated(x, w), accumulated(h, r)))
            bias = numbers(np.array([float(n * unit) for n in b[:rows] + b[rows:]]))
            gates = self("biased", add(total, bias))
            i, o, f, g = (gates.shaped(lambda n, k=k: np.split(n, 4, -1)[k]) for k in range(4))
            kept = self("kept", mul(self.function("gate_f", "sigmoid", f), c))
            new = mul(self.function("gate_i", "sigmoid", i), self.function("gate_g", "tanh", g))
            cell = self("cell", add(kept, self("new", new)))
            gate = self.function("gate_o", "sigmoid", o)
            return [self("hidden", mul(gate, self.function("tanh_cell", "tanh", cell))), cell]

        return self.layer(operands, types, step, 2)

    def gru(self, *operands: Tensor, types: Sequence[QParams]) -> list[Tensor]:
        linear = self.values["linear_before_reset"]

        def step(
            x: Tensor, states: Sequence[Tensor], w: Tensor, r: Tensor, b: Array, unit: Fraction
        ) -> list[Tensor]:
            (h,) = states
            size = r.n.shape[1]
            biases = numbers(np.array([float(n * unit) for n in b]))
            part = lambda v, a, e: v.shaped(lambda n: n[..., a * size : e * size])  # noqa: E731
            here = self("biased_input", add(accumulated(x, w), part(biases, 0, 3)))
            seen = 3 if linear else 2
            rows = r.shaped(lambda n: n[: seen * size])
            past = self("biased_hidden", add(accumulated(h, rows), part(biases, 3, 3 + seen)))
            total = self("total", add(part(here, 0, 2), part(past, 0, 2)))
            z = self.function("gate_z", "sigmoid", part(total, 0, 1))
            reset = self.function("gate_r", "sigmoid", part(total, 1, 2))
            if linear:
                more = self("reset", mul(reset, part(past, 2, 3)))
            else:
                product = accumulated(
                    self("reset", mul(reset, h)), r.shaped(lambda n: n[2 * size :])
                )
                more = self("biased_reset", add(product, part(biases, 5, 6)))
            n = self.function("candidate", "tanh", self("sum_n", add(part(here, 2, 3), more)))
            new = self("new", mul(self("update", add(number(1.0), z, -1)), n))
            return [self("hidden", add(new, self("kept", mul(z, h))))]

        return self.layer(operands, types, step, 1)


_NOT_STORED = {"qk", "from_input", "from_hidden", "from_reset"}
"""Sums, of which nothing is rounded."""
_NOT_STORED |= {"result", "last_hidden", "last_cell"}
"""Results, which have types."""


class Executor:
    """A compiled model; `run` takes and gives what its function does. `whole` counts the
    composites that ran whole, `unread` are component qparams that no microcode took."""

    def __init__(self, model: qd.Model) -> None:
        self.blobs, self.block = model.ctx.blobs, model.function().body.block
        self.whole, self.unread = Counter[str](), set[str]()

    def run(self, *inputs: Array) -> list[Array]:
        """Floats, or codes, by what the arguments and results are."""
        values: dict[SSAValue, Any] = {}
        for argument, array in zip(self.block.args, inputs, strict=True):
            q = _qparams(argument)
            values[argument] = array if q is None else _tensor(array, q)
        *ops, last = self.block.ops
        for op in ops:
            results = self._op(op, [values[v] for v in op.operands])
            values.update(zip(op.results, results, strict=True))
        return [_plain(values[v], _qparams(v)) for v in last.operands]

    def _op(self, op: Operation, operands: list[Any]) -> list[Any]:
        name, types = op.name.partition(".")[2], [_qparams(v) for v in op.results]
        if isinstance(op, ConstantOp):
            array = constant_array(op, self.blobs)
            if types[0] is not None:
                return [_tensor(array, types[0])]
            return [numbers(array) if array.dtype.kind == "f" else array]
        code = Microcode(op, types[0]) if types[0] is not None else None
        if code is not None and hasattr(Microcode, name):
            self.whole[op.name] += 1
            run = getattr(code, name)
            found = run(*operands, types=types) if name in ("lstm", "gru") else [run(*operands)]
            self.unread |= code.types.keys() - code.used - _NOT_STORED
            return found
        return _piece(op, name, operands, types)


def _qparams(value: SSAValue) -> QParams | None:
    element = quant_element(value.type)
    return None if element is None else element.qparams


def _tensor(codes: Array, q: QParams) -> Tensor:
    steps = [Fraction(s) for s in q.scale_list()]
    assert len(steps) == 1, "one scale per tensor"
    return Tensor(codes.astype(np.int64) - q.zero_point, steps[0])


def _plain(value: Any, q: QParams | None) -> Array:
    if not isinstance(value, Tensor):
        return value
    return value.n * float(value.step) if q is None else value.n + q.zero_point


def _piece(op: Operation, name: str, x: list[Any], types: Sequence[QParams | None]) -> list[Any]:
    """An op on codes that is no composite."""
    v: Mapping[str, Any] = getattr(op, "values", {})
    q: Any = types[0]
    binary = {"add": add, "mul": mul, "sub": lambda a, b: add(a, b, -1), "matmul": dot}
    if name == "qcast":
        return [stored(numbers(x[0]), q)]
    if name == "dcast":
        return [np.asarray((x[0].n * float(x[0].step)), np.float32)]
    if name == "rescale":
        return [stored(x[0], q)]
    if name == "scast":  # the same codes, with other numbers that they stand for
        codes = _plain(x[0], _qparams(op.operands[0]))
        return [codes if q is None else _tensor(codes, q)]
    if name in binary:
        return [stored(binary[name](x[0], x[1]), q)]
    if name == "fully_connected":
        total = dot(x[0], x[1].shaped(lambda n: n.T))
        return [stored(Tensor(total.n + (x[2].n if len(x) > 2 else 0), total.step), q)]
    if name.startswith(("conv1d", "conv2d")):
        total = convolution(x[0].n, x[1].n, v)
        bias = x[2].n.reshape(-1, *(1,) * (total.ndim - 2)) if len(x) > 2 else 0
        return [stored(Tensor(total + bias, x[0].step * x[1].step), q)]
    if name.startswith("avg_pool"):
        axes = tuple(range(-len(v["kernel"]), 0))
        total = windows(x[0].n, v["kernel"], v).sum(axis=axes)
        ones = windows(np.ones_like(x[0].n), v["kernel"], v, int(v["count_include_pad"]))
        (count,) = set(ones.sum(axis=axes).ravel().tolist())
        return [stored(Tensor(total, x[0].step / count), q)]
    if name == "global_avg_pool2d":
        return [stored(mean(x[0], (2, 3)), q)]
    if name == "reciprocal":
        return [stored(number(1.0), q, x[0])]
    if name == "pow":
        return [
            table(lambda y: y ** v["exponent"] if y > 0 or v["exponent"] > 0 else math.inf, x[0], q)
        ]
    if name == "swish":
        gate = _FUNCTIONS["sigmoid"]
        return [table(lambda y: y * gate(y * v["alpha"]), x[0], q)]
    if name == "hard_sigmoid":
        return [table(lambda y: min(max(y * v["alpha"] + v["beta"], 0.0), 1.0), x[0], q)]
    if name in _FUNCTIONS:
        return [table(_FUNCTIONS[name], x[0], q)]
    if name in ("reduce_mean", "reduce_sum", "reduce_max"):
        axes = tuple(axis % x[0].n.ndim for axis in v["axes"])
        found = mean(x[0], axes)
        if name == "reduce_sum":
            found = Tensor(found.n, x[0].step)
        if name == "reduce_max":
            found = x[0].shaped(lambda n: n.max(axis=axes, keepdims=True))
        if not v["keepdims"]:
            found = found.shaped(lambda n: np.squeeze(n, axes))
        return [stored(found, q)]
    if name == "table":
        source = _qparams(op.operands[0])
        assert source is not None
        places = x[0].n + source.zero_point - source.storage.full_range[0]
        return [x[1].shaped(lambda n: n[places])]
    return _moved(op, name, x, v)


def _moved(op: Operation, name: str, x: list[Any], v: Mapping[str, Any]) -> list[Any]:
    """An op that moves or chooses elements, which keep their codes."""
    shape = shape_of(op.results[0])
    if name == "concat":
        q: Any = _qparams(op.results[0])
        same = [stored(t, q).n for t in x]  # of operands on other scales, too
        return [Tensor(np.concatenate(same, v["axis"]), Fraction(q.scale))]
    if name == "relu":
        return [x[0].shaped(lambda n: np.maximum(n, 0))]
    if name == "clip":
        ends = [v.get(end) for end in ("min", "max")]
        low, high = (None if e is None else round(Fraction(e) / x[0].step) for e in ends)
        return [x[0].shaped(lambda n: np.clip(n, low, high))]
    if name == "split":
        ends = np.cumsum(v["sizes"])[:-1]
        return [Tensor(part, x[0].step) for part in np.split(x[0].n, ends, v["axis"])]
    if name == "slice":
        cut = tuple(slice(*each) for each in zip(v["starts"], v["stops"], v["steps"], strict=True))
        return [x[0].shaped(lambda n: n[cut])]
    if name == "gather":
        return [x[0].shaped(lambda n: np.take(n, x[1], v["axis"]))]
    if name == "transpose":
        return [x[0].shaped(lambda n: n.transpose(v["perm"]))]
    if name in ("reshape", "squeeze", "unsqueeze", "flatten"):
        return [x[0].shaped(lambda n: n.reshape(shape))]
    raise qd.UnsupportedError(f"the accelerator has no kernel for '{op.name}'")
