"""What ops cost in the ONNX Runtime that is installed: one small model per op, as we write it.

A model has several copies of the op, another one fewer; the difference of their times is the
op's, without what a run costs by itself.  Outputs stay in the runtime.  Each round
times every model once, so that all of them share what the machine does meanwhile, and the
shortest time of each counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

from qdialect.backends.onnx.engine import OrtEngine
from qdialect.backends.onnx.exporter import Form, export_model
from qdialect.backends.onnx.kernels import CLAMPS, KERNELS
from qdialect.context import QContext
from qdialect.dialects.onnx import package
from qdialect.errors import InputError, QError
from qdialect.targets.price_table import PriceTable

COPIES = (2, 10)
SIDE = 48
"""Tensors are 1 x 32 x 48 x 48."""

Read = Callable[[str, QContext], Any]
"""Makes a module of text (a frontend's business, which a backend does not import)."""

_UNARY = (
    *("relu", "neg", "abs", "exp", "log", "sqrt", "reciprocal", "erf", "gelu", "swish"),
    *("softplus", "floor", "ceil", "round", "sigmoid", "tanh", "hard_swish"),
)
_CLIP = "nn.clip %x min 0.2 max 0.7"
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
CALLS: Mapping[str, str] = {
    **{f"nn.{name}": f"nn.{name} %x" for name in _UNARY},
    **{f"nn.{name}": f"nn.{name} %x, %x" for name in _BINARY},
    "nn.clip": _CLIP,
    "nn.batch_norm": "nn.batch_norm %x, %scale, %bias, %mean, %variance epsilon 0.0",
    "nn.gather": "nn.gather %x, %indices axis 1",
    "nn.elu": "nn.elu %x alpha 1.0",
    "nn.hard_sigmoid": "nn.hard_sigmoid %x alpha 0.2 beta 0.5",
    "nn.leaky_relu": "nn.leaky_relu %x alpha 0.1",
    "nn.pow": "nn.pow %x exponent 2.5",
    "nn.prelu": "nn.prelu %x, %slopes",
}
"""Elementwise ops, by how a copy is written."""

_ONE_TAP = "nn.conv2d %x, %taps, %offsets groups 32"
"""The convolution that is an affine function of each channel."""

_TRANSPOSE = "nn.transpose %x perm [0, 2, 1, 3]"

ON_CODES = frozenset({*CLAMPS, *KERNELS, "nn.gather", "nn.maximum", "nn.minimum"})
"""Ops of these that are written on codes."""

_WINDOWS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "nn.avg_pool2d": ("nn.avg_pool2d %x kernel [2, 2] strides [2, 2]", (1, 32, 24, 24)),
    "nn.global_avg_pool2d": ("nn.global_avg_pool2d %x", (1, 32, 1, 1)),
    "nn.conv2d": ("nn.conv2d %x, %kernel", (1, 32, 46, 46)),
    "nn.matmul": ("nn.matmul %x, %matrix", (1, 32, SIDE, SIDE)),
    "nn.softmax": ("nn.softmax %x", (1, 32, SIDE, SIDE)),
}
"""Other kernels, by how a copy is written and the shape it gives."""

_SHAPE = (1, 32, SIDE, SIDE)
_TURNED = (1, SIDE, 32, SIDE)


@dataclass
class _Timed:
    """A model at work; the shortest run so far, of processor time."""

    session: Any
    binding: Any
    best: float = math.inf

    def run(self) -> None:
        start = thread_time()
        self.session.run_with_iobinding(self.binding)
        self.best = min(self.best, thread_time() - start)


@dataclass
class Benchmark:
    """The measurements asked for, and then their times."""

    read: Read
    new_context: Callable[[], QContext]
    rounds: int = 60
    _pairs: dict[tuple[str, str], tuple[_Timed, _Timed, int]] = field(
        default_factory=dict[tuple[str, str], "tuple[_Timed, _Timed, int]"]
    )

    def measure(self, watch: Callable[[Iterable[int]], Iterable[int]] = iter) -> PriceTable:
        """All prices; `watch` sees the rounds go by."""
        self._ask("rescale", "codes", "quant.rescale %x", _SHAPE, "u8", "u8", "qdq")
        self._ask("nn.table", "codes", "nn.table %x, %entries", _SHAPE, "u8", "u8", "qdq")
        self._ask("nn.transpose", "codes", _TRANSPOSE, _SHAPE, "u8", "u8", "qdq")
        self._ask("nn.conv2d", "codes", _ONE_TAP, _SHAPE, "u8", "u8", "qoperator")
        for name, call in CALLS.items():
            self._ask(name, "floats", call, _SHAPE, None, None, "qdq")
            if name in ON_CODES:
                self._ask(name, "codes", call, _SHAPE, "u8", "u8", "qoperator")
        shapes = {n: (CALLS[n], _SHAPE) for n in CALLS if n in KERNELS} | dict(_WINDOWS)
        for name, (call, shape) in shapes.items():
            for form in ("qdq", "qoperator"):
                self._ask(name, form, call, shape, "u8", "u8", form, optimize=True)
        for _ in watch(range(self.rounds)):
            for few, many, _elements in self._pairs.values():
                few.run()
                many.run()
        return self._table()

    def _table(self) -> PriceTable:
        seconds = {
            key: max(many.best - few.best, 0.0) / (COPIES[1] - COPIES[0]) / elements
            for key, (few, many, elements) in self._pairs.items()
        }
        unit = seconds["rescale", "codes"]
        if not unit:
            raise InputError("the clock is too coarse, or the machine too busy", code="no-prices")
        # A cast is half a rescale, and reading bits in another way is nothing.
        halves = {"quant.dcast": 0.5, "quant.qcast": 0.5}
        codes = {"quant.rescale": 1.0, "quant.scast": 0.0, **halves}
        clip = seconds["nn.clip", "floats"] / 2
        floats: dict[str, float] = {}
        forms: dict[str, list[float]] = {}
        for (name, kind), value in seconds.items():
            alone = value if kind != "floats" else max(value - clip, 0.0)
            price = round(alone / unit, 3)
            if kind == "codes" and name != "rescale":
                codes[name] = price
            elif kind == "floats":
                floats[name] = price
            elif kind in ("qdq", "qoperator"):
                forms.setdefault(name, []).append(price)
        return PriceTable(
            "onnxruntime",
            str(package("onnxruntime").__version__),
            math.prod(_SHAPE),
            round(unit * 1e9, 4),
            codes,
            floats,
            {name: (pair[0], pair[1]) for name, pair in forms.items()},
        )

    def _ask(
        self,
        name: str,
        kind: str,
        call: str,
        shape: tuple[int, ...],
        takes: str | None,
        gives: str | None,
        form: Form,
        *,
        optimize: bool = False,
    ) -> None:
        program = _Program(call, shape, takes, gives, chained=not optimize)
        few, many = (self._timed(program.text(copies), form, optimize) for copies in COPIES)
        self._pairs[name, kind] = few, many, math.prod(shape)

    def _timed(self, text: str, form: Form, optimize: bool) -> _Timed:
        import numpy as np

        ctx = self.new_context()
        try:
            model = export_model(self.read(text, ctx), ctx, form=form)
            session = OrtEngine(model, optimize=optimize).session
        except QError as error:
            error.notes = (*error.notes, f"the model to measure: {text}")
            raise
        rng = np.random.default_rng(0)
        binding = session.io_binding()
        for entry in session.get_inputs():
            values = rng.uniform(0.1, 0.9, _SHAPE)
            if "uint8" in entry.type:
                values = values * 250
            kind = np.uint8 if "uint8" in entry.type else np.float32
            binding.bind_cpu_input(entry.name, np.ascontiguousarray(values.astype(kind)))
        for entry in session.get_outputs():
            binding.bind_output(entry.name)
        session.run_with_iobinding(binding)
        return _Timed(session, binding)


@dataclass(frozen=True)
class _Program:
    """A function of some copies of a call: `chained`, each on the result of the one before,
    in memory that is in use; or side by side, no two of them in one scale.  After each of
    them floats of a chain are clipped, so that they stay ordinary numbers."""

    call: str
    shape: tuple[int, ...]
    takes: str | None
    gives: str | None
    chained: bool

    def text(self, copies: int) -> str:
        image = _type(_SHAPE, self.takes and f"{self.takes}:f32, 0.005:1")
        source, before = "%x", image
        lines: list[str] = []
        results: list[tuple[str, str]] = []
        for index in range(copies):
            scale = 0.005 + index / 2**16
            result = _type(self.shape, self.gives and f"{self.gives}:f32, {scale}:1")
            if self.chained and (self.call in CALLS.values() or self.call == _ONE_TAP):
                result = image
            elif self.call == _TRANSPOSE:  # there and back
                result = _type(_TURNED, "u8:f32, 0.005:1") if index % 2 == 0 else image
            lines += self._copy(index, source, before, result, scale)
            results.append((f"%r{index}", result))
            if self.chained:
                source, before = results[-1]
        if self.chained:
            results = results[-1:]
        names, types = (", ".join(column) for column in zip(*results, strict=True))
        body = "\n".join(lines)
        return (
            f"func.func @main(%x: {image}) -> ({types}) {{\n{body}\n"
            f"  func.return {names} : {types}\n}}"
        )

    def _copy(self, index: int, source: str, before: str, result: str, scale: float) -> list[str]:
        weights = "i8:f32, 0.01" if self.takes else None
        constants = {
            "%entries": ("7", _type((256,), f"u8:f32, {scale}:1"), "tensor<256xi8>"),
            "%kernel": ("5", _type((32, 32, 3, 3), weights), "tensor<32x32x3x3xi8>"),
            "%matrix": ("5", _type((SIDE, SIDE), weights), f"tensor<{SIDE}x{SIDE}xi8>"),
            "%indices": ("3", "tensor<32xi64>", "tensor<32xi64>"),
            "%taps": ("64", _type((32, 1, 1, 1), weights), "tensor<32x1x1x1xi8>"),
            "%offsets": ("64", "tensor<32x!quant.uniform<i32:f32, 0.00005>>", "tensor<32xi32>"),
            **dict.fromkeys(
                ("%scale", "%bias", "%mean", "%variance"),
                ("0.5", "tensor<32xf32>", "tensor<32xf32>"),
            ),
            "%slopes": ("0.2", "tensor<32x1x1xf32>", "tensor<32x1x1xf32>"),
        }
        lines: list[str] = []
        kinds = [before] * self.call.count("%x")
        written = self.call.replace("%x", source)
        for name, (value, kind, stored) in constants.items():
            if name in written:
                lines.append(f"  {name}{index} = nn.constant dense<{value}> : {stored} : {kind}")
                written = written.replace(name, f"{name}{index}")
                kinds.append(kind)
        if self.call.startswith("quant."):
            return [*lines, f"  %r{index} = {written} : {before} to {result}"]
        floats = self.gives is None
        made = f"%t{index}" if floats else f"%r{index}"
        lines.append(f"  {made} = {written} : ({', '.join(kinds)}) -> {result}")
        if floats:
            lines.append(f"  %r{index} = {_CLIP} : ({result}) -> {result}".replace("%x", made))
        return lines


def _type(shape: tuple[int, ...], qparams: str | None) -> str:
    element = "f32" if not qparams else f"!quant.uniform<{qparams}>"
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"
