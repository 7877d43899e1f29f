"""Code generation of the small core: C, op by op, compiled with `cc` and called by ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from math import lcm, prod
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.func import FuncOp, ReturnOp

from qdialect.errors import UnsupportedError
from qdialect.numerics.rounding import Rounding
from qdialect.ops import ConstantOp, constant_array, shape_of
from qdialect.ops.locations import op_where
from qdialect.ops.pooling import window_counts
from qdialect.quant import quant_element

PRELUDE = """#include <stdint.h>
static int64_t clamp(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}
static int64_t scaled(int64_t v, int64_t multiplier, int shift) {
  return (int64_t)(((__int128)v * multiplier + ((__int128)1 << (shift - 1))) >> shift);
}
static int64_t quotient(int64_t n, int64_t d) { return n / d - (n % d < 0); }
"""


class CWriter:
    """One function of C for a function of the model."""

    def __init__(self, model):
        self.model = model
        self.globals, self.lines, self.names = [PRELUDE], [], {}

    def source(self):
        (function,) = (op for op in self.model.module.walk() if isinstance(op, FuncOp))
        block = function.body.block
        arguments = [f"const {ctype(a.type)} *x{n}" for n, a in enumerate(block.args)]
        self.names.update({a: f"x{n}" for n, a in enumerate(block.args)})
        for op in block.ops:
            if isinstance(op, ReturnOp):
                for n, value in enumerate(op.operands):
                    arguments.append(f"{ctype(value.type)} *y{n}")
                    self.loop(value, f"y{n}[i] = {self.names[value]}[i];")
            elif isinstance(op, ConstantOp):
                self.constant(op)
            else:
                self.operation(op)
        body = "\n".join(self.lines)
        head = f"void run({', '.join(arguments)})"
        return "\n".join([*self.globals, f"{head} {{", body, "}", ""])

    def operation(self, op):
        case = getattr(self, op.name.replace(".", "_"), None)
        if case is None:
            raise UnsupportedError(
                f"tinycore has no code for '{op.name}'", where=op_where(op), code="tinycore-op"
            )
        (result,) = op.results
        name = self.names[result] = f"v{len(self.names)}"
        count = prod(shape_of(result))
        self.globals.append(f"static {ctype(result.type)} {name}[{count}];")
        case(op, name, *(self.names[v] for v in op.operands))

    def constant(self, op):
        name = self.names[op.result] = f"c{len(self.names)}"
        array = constant_array(op, self.model.ctx.blobs).reshape(-1)
        numbers = ", ".join(map(str, array.tolist()))
        self.globals.append(f"static const {ctype(op.result.type)} {name}[] = {{{numbers}}};")

    def loop(self, value, statement):
        self.lines.append(f"  for (int i = 0; i < {prod(shape_of(value))}; i++) {statement}")

    # elementwise

    def quant_rescale(self, op, y, x):
        if op.fixed_point is None or op.rounding is not Rounding.HALF_UP:
            raise UnsupportedError("tinycore multiplies and shifts", where=op_where(op))
        q, pairs = quant_element(op.result.type).qparams, op.fixed_point
        index = "0" if len(pairs) == 1 else channel(op.result, params(op.input.type).axis)
        m = self.array("int64_t", [m for m, _ in pairs])
        k = self.array("int", [k for _, k in pairs])
        value = f"scaled((int64_t){x}[i] - {zero_of(op.input.type)}, {m}[{index}], {k}[{index}])"
        self.loop(op.result, f"{y}[i] = {clamped(value, q)};")

    def array(self, kind, numbers):
        self.globals.append(f"static const {kind} p{len(self.globals)}[] = {braced(numbers)};")
        return f"p{len(self.globals) - 1}"

    def nn_table(self, op, y, x, table):
        self.loop(op.result, f"{y}[i] = {table}[{x}[i] - ({params(op.input.type).storage.min})];")

    def binary(self, op, y, a, b, sign):
        shape, terms = shape_of(op.results[0]), []
        for name, value in ((a, op.operands[0]), (b, op.operands[1])):
            terms.append(
                f"((int64_t){name}[{broadcast(shape_of(value), shape)}] - {zero_of(value.type)})"
            )
        value = f" {sign} ".join(terms)
        self.loop(op.results[0], f"{y}[i] = {clamped(value, params(op.results[0].type))};")

    def nn_add(self, op, y, a, b):
        self.binary(op, y, a, b, "+")

    def nn_sub(self, op, y, a, b):
        self.binary(op, y, a, b, "-")

    def nn_mul(self, op, y, a, b):
        self.binary(op, y, a, b, "*")

    def nn_maximum(self, op, y, a, b):
        shape = shape_of(op.results[0])
        sides = zip((a, b), op.operands, strict=True)
        a, b = (f"{name}[{broadcast(shape_of(v), shape)}]" for name, v in sides)
        self.loop(op.results[0], f"{y}[i] = {a} > {b} ? {a} : {b};")

    def nn_div(self, op, y, a, b):
        """Of whole numbers, rounded half up: floor((2 n + d) / (2 d)), d > 0."""
        shape, q = shape_of(op.results[0]), params(op.results[0].type)
        n, d = (
            f"((int64_t){name}[{broadcast(shape_of(v), shape)}] - {zero_of(v.type)})"
            for name, v in zip((a, b), op.operands, strict=True)
        )
        value = clamped(f"quotient(2 * {n} + {d}, 2 * {d})", q)
        self.loop(op.results[0], f"{y}[i] = {value};")

    def nn_reshape(self, op, y, x):
        self.loop(op.results[0], f"{y}[i] = {x}[i];")

    nn_flatten = nn_squeeze = nn_unsqueeze = quant_scast = nn_reshape

    def nn_clip(self, op, y, x):
        """Bounds that are codes, or beyond all."""
        q, v = params(op.results[0].type), values_of(op)
        low, high = (
            min(max(round(v.get(name, end) / q.scale + q.zero_point), q.storage.min), q.storage.max)
            for name, end in (("min", -1e30), ("max", 1e30))
        )
        self.loop(op.results[0], f"{y}[i] = clamp({x}[i], {low}LL, {high}LL);")

    def nn_relu(self, op, y, x):
        zero = zero_of(op.results[0].type)
        self.loop(op.results[0], f"{y}[i] = {x}[i] < {zero} ? {zero} : {x}[i];")

    # windows

    def nn_conv2d(self, op, y, x, w, bias="0"):
        self.window(op, y, x, w, bias, "{y} = s;")

    def tiny_conv_lut(self, op, y, x, w, bias, table):
        p, q = values_of(op), quant_element(op.codes).qparams
        m, k = self.array("int64_t", p["multiplier"]), self.array("int", p["shift"])
        o = "o" if len(p["shift"]) > 1 else "0"
        code = clamped(f"scaled(s, {m}[{o}], {k}[{o}])", q)
        self.window(op, y, x, w, bias, f"{{y}} = {table}[{code} - ({q.storage.min})];")

    def window(self, op, y, x, w, bias, store):
        p, (n, channels, h, width) = values_of(op), shape_of(op.operands[0])
        (outs, per, kh, kw), (_, _, oh, ow) = shape_of(op.operands[1]), shape_of(op.results[0])
        (sh, sw), (dh, dw), (top, left) = p["strides"], p["dilations"], p["pads"][:2]
        at = f"((b*{outs}+o)*{oh}+r)*{ow}+c"
        zx, zw = zero_of(op.operands[0].type), zero_of(op.operands[1].type)
        self.lines.append(f"""\
  for (int b = 0; b < {n}; b++) for (int o = 0; o < {outs}; o++)
  for (int r = 0; r < {oh}; r++) for (int c = 0; c < {ow}; c++) {{
    int64_t s = {f"{bias}[o]" if bias != "0" else "0"};
    for (int k = 0; k < {per}; k++) for (int i = 0; i < {kh}; i++) for (int j = 0; j < {kw}; j++) {{
      int f = o / {outs // p["groups"]} * {per} + k;
      int u = r * {sh} + i * {dh} - {top}, v = c * {sw} + j * {dw} - {left};
      if (u < 0 || u >= {h} || v < 0 || v >= {width}) continue;
      s += (int64_t)({x}[((b*{channels}+f)*{h}+u)*{width}+v] - ({zx}))
         * ({w}[((o*{per}+k)*{kh}+i)*{kw}+j] - ({zw}));
    }}
    {store.format(y=f"{y}[{at}]")}
  }}""")

    def nn_fully_connected(self, op, y, x, w, bias="0"):
        outs, depth = shape_of(op.operands[1])
        start = f"{bias}[i % {outs}]" if bias != "0" else "0"
        term = (
            f"(int64_t)({x}[i / {outs} * {depth} + k] - ({zero_of(op.operands[0].type)}))"
            f" * ({w}[i % {outs} * {depth} + k] - ({zero_of(op.operands[1].type)}))"
        )
        self.total(op, y, start, depth, term)

    def nn_global_avg_pool2d(self, op, y, x):
        """The exact sum: the division is in the scale."""
        count, zero = prod(shape_of(op.operands[0])[2:]), zero_of(op.operands[0].type)
        self.total(op, y, "0", count, f"{x}[i * {count} + k] - ({zero})")

    def total(self, op, y, start, count, term):
        adding = f"for (int k = 0; k < {count}; k++) s += {term};"
        self.loop(op.results[0], f"{{ int64_t s = {start}; {adding} {y}[i] = s; }}")

    def nn_reduce_sum(self, op, y, x):
        self.reduced(op, f"s += {x}[{{at}}] - ({zero_of(op.operands[0].type)});", y, "0")

    nn_reduce_mean = nn_reduce_sum

    def nn_reduce_max(self, op, y, x):
        lowest = f"{params(op.results[0].type).storage.min}LL"
        self.reduced(op, f"if ({x}[{{at}}] > s) s = {x}[{{at}}];", y, lowest)

    def reduced(self, op, step, y, start):
        """`s` over the elements k of the axes, from `start` on."""
        shape = shape_of(op.operands[0])
        over = sorted(axis % len(shape) for axis in values_of(op)["axes"])
        kept = [d for d in range(len(shape)) if d not in over]
        at = " + ".join(
            f"{name} / {prod(shape[e] for e in dims if e > d)} % {shape[d]}"
            f" * {prod(shape[d + 1 :])}"
            for name, dims in (("i", kept), ("k", over))
            for d in dims
        )
        loop = f"for (int k = 0; k < {prod(shape[d] for d in over)}; k++) {step.format(at=at)}"
        self.loop(op.results[0], f"{{ int64_t s = {start}; {loop} {y}[i] = s; }}")

    def nn_concat(self, op, y, *inputs):
        axis, start = values_of(op)["axis"], 0
        inner, whole = prod(shape_of(op.results[0])[axis + 1 :]), shape_of(op.results[0])[axis]
        for x, value in zip(inputs, op.operands, strict=True):
            row = shape_of(value)[axis] * inner
            at = f"i / {row} * {whole * inner} + {start} + i % {row}"
            self.loop(value, f"{y}[{at}] = {x}[i];")
            start += row

    def nn_max_pool2d(self, op, y, x):
        lowest = params(op.results[0].type).storage.min
        self.pool(op, y, x, lowest, lambda e: f"if ({e} > m) m = {e};")

    def nn_avg_pool2d(self, op, y, x):
        """The exact sum, as above; where windows count fewer elements, so many times more."""
        counts, zero = window_counts(op).reshape(-1), zero_of(op.operands[0].type)
        factors = self.array("int", (lcm(*counts.tolist()) // counts).tolist())
        taken = f"m * {factors}[i % {len(counts)}]"
        self.pool(op, y, x, 0, lambda e: f"m += {e} - ({zero});", taken)

    def pool(self, op, y, x, start, step, taken="m"):
        p, (_, _, h, width) = values_of(op), shape_of(op.operands[0])
        (_, _, oh, ow), (kh, kw) = shape_of(op.results[0]), p["kernel"]
        (sh, sw), (top, left) = p["strides"], p["pads"][:2]
        dh, dw = p.get("dilations", (1, 1))
        inside = f"u >= 0 && u < {h} && v >= 0 && v < {width}"
        self.loop(
            op.results[0],
            f"""{{
    int r = i / {ow} % {oh}, c = i % {ow}, m = {start};
    for (int k = 0; k < {kh}; k++) for (int j = 0; j < {kw}; j++) {{
      int u = r * {sh} + k * {dh} - {top}, v = c * {sw} + j * {dw} - {left};
      if ({inside}) {step(f"{x}[(i / {oh * ow} * {h} + u) * {width} + v]")}
    }}
    {y}[i] = {taken}; }}""",
        )


def params(kind):
    return quant_element(kind).qparams


def ctype(kind):
    element = quant_element(kind)
    if element is None:
        return f"int{kind.get_element_type().width.data}_t"
    storage = element.qparams.storage
    return f"{'' if storage.signed else 'u'}int{storage.width}_t"


def braced(numbers):
    return f"{{{', '.join(map(str, numbers))}}}"


def clamped(value, q):
    return f"clamp({value} + ({q.zero_point}), {q.storage.min}LL, {q.storage.max}LL)"


def channel(value, axis):
    shape = shape_of(value)
    return f"i / {prod(shape[axis + 1 :])} % {shape[axis]}"


def broadcast(shape, result):
    """Where element i of a result of shape `result` is in an operand of `shape`."""
    shape = (*(1 for _ in range(len(result) - len(shape))), *shape)
    terms = [
        f"i / {prod(result[d + 1 :])} % {result[d]} * {prod(shape[d + 1 :])}"
        for d in range(len(result))
        if shape[d] > 1
    ]
    return " + ".join(terms) or "0"


# [run] Compile with cc, call by ctypes.


def compiled(model):
    """A function from codes to codes."""
    source = CWriter(model).source()
    with tempfile.TemporaryDirectory(prefix="tinycore-") as folder:
        (Path(folder) / "net.c").write_text(source)
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", "net.so", "net.c"]
        subprocess.run(command, cwd=folder, check=True)
        run_c = ctypes.CDLL(f"{folder}/net.so").run
    (function,) = (op for op in model.module.walk() if isinstance(op, FuncOp))
    kinds = function.function_type.outputs

    def run(*inputs):
        given = [np.ascontiguousarray(x) for x in inputs]
        made = [np.zeros(k.get_shape(), ctype(k).removesuffix("_t")) for k in kinds]
        run_c(*(array.ctypes.data_as(ctypes.c_void_p) for array in (*given, *made)))
        return made

    return run


def zero_of(kind):
    return quant_element(kind).qparams.zero_point_list()[0]


def values_of(op):
    """The numbers in an op's properties."""
    found = {}
    for name, attribute in op.properties.items():
        if isinstance(attribute, DenseArrayBase):
            found[name] = [int(v) for v in attribute.get_values()]
        elif hasattr(attribute, "value") and hasattr(attribute.value, "data"):
            found[name] = attribute.value.data
    return found
