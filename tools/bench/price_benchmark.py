"""What ops cost in the ONNX Runtime that is installed: one small model per op, as we write it.

A model has several copies of the op, another one fewer; the difference of their times is the
op's, without what a run costs by itself.  Outputs stay in the runtime.  Each round
times every model once, so that all of them share what the machine does meanwhile, and the
shortest time of each counts.
"""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qdialect.errors import InputError, QError
from qdialect.ir.context import new_context
from qdialect.packages import package
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.write.engine import OrtEngine
from qdialect.plugins.onnx.write.exporter import Form
from qdialect.plugins.onnx.write.kernels import CLAMPS, KERNELS
from qdialect.plugins.onnx.write.model import write_model
from qdialect.targets.price_table import Pair, Prices, PriceTable
from tools.bench.kernel_benchmark import KernelBenchmark, Watch, unwatched

COPIES = (2, 10)
MOST_RUNS = 12
"""Of each case of a kernel."""
CHANNELS = 32
SIDES: Mapping[int, tuple[int, int]] = {8: (8, 1), 48: (1, 2), 128: (1, 8)}
"""Tensors are 1 x 32 x side x side: how often each is run in a round, and in which rounds (every
n-th)."""

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

_CONV = "nn.conv2d %x, %kernel"
_WINDOWS: Mapping[str, str] = {
    "nn.avg_pool2d": "nn.avg_pool2d %x kernel [2, 2] strides [2, 2]",
    "nn.global_avg_pool2d": "nn.global_avg_pool2d %x",
    "nn.conv2d": _CONV,
    "nn.matmul": "nn.matmul %x, %matrix",
    "nn.softmax": "nn.softmax %x",
    "nn.softmax inner": "nn.softmax %x axis 1",
}
"""Other kernels, by how a copy is written."""

_APART = ("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.softmax", "nn.softmax inner")
"""Of these also what they take on floats between casts that are not put together."""

_FEW = (3, 4)
"""Channels of the input of a convolution."""
_PAD = "nn.pad %x low [0, 0, 0, 0] high [0, 1, 0, 0]"
_BLOCKS = "nn.depth_to_space %x block 2"

_TO_FLOATS = "nn.conv_transpose2d %x, %spread strides [2, 2]"
_TO_PHASES = "nn.conv2d %x, %phases; nn.transpose perm [0, 3, 1, 2]"
"""With the depth_to_space as `channels-last` writes it."""
_HIGHEST = {"uint8": 250, "int8": 125, "float32": 1}
"""Of random inputs."""
_FLAGS = (
    *("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx_vnni_int8", "amx_int8"),
    *("asimddp", "i8mm", "sve"),
)
_MORE_ROUNDS = 500
"""Of rescales that seem to take no time."""

_TRANSPOSED = (8, 32, 128)
"""Channels of a transposed convolution of 2 x 2 with stride 2, which sums over them."""


def processor() -> str:
    """The processor of this machine, with what of it decides how fast bytes are multiplied."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    said = dict(re.findall(r"^(.+?)\s*:[ \t]*(.*)$", text, re.MULTILINE)[::-1])
    name = said.get("model name") or platform.processor() or platform.machine()
    flags = set((said.get("flags") or said.get("Features") or "").split())
    return ", ".join([name, *(flag for flag in _FLAGS if flag in flags)])


@dataclass
class _Timed:
    """A model at work; the shortest run so far, in seconds of processor time."""

    engine: OrtEngine
    inputs: Mapping[str, Any]
    best: float = math.inf

    def run(self, runs: int) -> None:
        self.best = min(self.best, *(n / 1e9 for n in self.engine.nanoseconds(self.inputs, runs)))


@dataclass(frozen=True)
class _Pair:
    """Two models, of few and of many copies, on so many elements; and when they are run."""

    few: _Timed
    many: _Timed
    elements: int
    runs: int
    every: int

    def run(self) -> None:
        self.few.run(self.runs)
        self.many.run(self.runs)

    def seconds(self) -> float:
        """Of one copy, per element."""
        return max(self.many.best - self.few.best, 0.0) / (COPIES[1] - COPIES[0]) / self.elements


@dataclass
class Benchmark:
    """The measurements asked for, and then their times."""

    rounds: int = 60
    sides: Mapping[int, tuple[int, int]] = field(default_factory=lambda: SIDES)
    #: by side, name and kind
    _pairs: dict[tuple[int, str, str], _Pair] = field(
        default_factory=dict[tuple[int, str, str], _Pair]
    )

    def measure(self, watch: Watch = unwatched) -> PriceTable:
        """All prices; `watch` sees the cases of kernels and then the rounds go by."""
        runs = min(max(self.rounds // 8, 2), MOST_RUNS)
        kernels = KernelBenchmark(runs).measure(watch)
        for side in self.sides:
            self._ask_all(side)
        for turn in watch(range(self.rounds), "rescales and ops"):
            for pair in self._pairs.values():
                if turn % pair.every == 0:
                    pair.run()
        self._run_units()
        runtime = str(package("onnxruntime").__version__)
        sizes = tuple(self._prices(side) for side in self.sides)
        return PriceTable("onnxruntime", runtime, processor(), sizes, kernels)

    def _run_units(self) -> None:
        """Run rescales, the unit of prices, until each takes some time: on a busy machine the
        shortest run of few copies may for long be longer than that of many."""
        units = [pair for (_, name, _), pair in self._pairs.items() if name == "rescale"]
        for _ in range(_MORE_ROUNDS):
            late = [pair for pair in units if not pair.seconds()]
            if not late:
                return
            for pair in late:
                pair.run()

    def _ask_all(self, side: int) -> None:
        shape = (1, CHANNELS, side, side)
        self._ask(side, "rescale", "codes", _Program("quant.rescale %x", shape, shape, "u8"))
        turned = (1, side, CHANNELS, side)
        for name, call, result in (
            ("nn.table", "nn.table %x, %entries", shape),
            ("nn.transpose", _TRANSPOSE, turned),
        ):
            self._ask(side, name, "codes", _Program(call, shape, result, "u8"))
        one_tap = _Program(_ONE_TAP, shape, shape, "u8")
        self._ask(side, "nn.conv2d", "codes", one_tap, "qoperator")
        for name, call in CALLS.items():
            self._ask(side, name, "floats", _Program(call, shape, shape, None))
            if name in ON_CODES:
                self._ask(side, name, "codes", _Program(call, shape, shape, "u8"), "qoperator")
        given = {
            "nn.avg_pool2d": (1, CHANNELS, side // 2, side // 2),
            "nn.global_avg_pool2d": (1, CHANNELS, 1, 1),
            "nn.conv2d": (1, CHANNELS, side - 2, side - 2),
        }
        forms: tuple[Form, ...] = ("qdq", "qoperator")
        for name, call in ({n: CALLS[n] for n in CALLS if n in KERNELS} | dict(_WINDOWS)).items():
            program = _Program(call, shape, given.get(name, shape), "u8", chained=False)
            for form in forms:
                self._ask(side, name, form, program, form, optimize=True)
            if name in _APART:
                apart = replace(program, apart=True)
                self._ask(side, name, "apart", apart, "qdq", optimize=True)
        wide = (1, CHANNELS + 1, side, side)
        self._ask(side, "nn.pad", "codes", _Program(_PAD, shape, wide, "u8", chained=False))
        large = (1, CHANNELS // 4, 2 * side, 2 * side)
        moved = _Program(_BLOCKS, shape, large, "u8", chained=False)
        self._ask(side, "nn.depth_to_space", "codes", moved)
        for channels in _FEW:
            image = (1, channels, side, side)
            program = _Program("nn.conv2d %x, %few", image, given["nn.conv2d"], "u8", chained=False)
            self._ask(side, str(channels), "channels", program, "qoperator", optimize=True)
        for channels in _TRANSPOSED:
            # As many elements of the result, whatever is summed.
            high, wide = side * 4 // 8, side * CHANNELS * 2 // (4 * channels)
            if not wide:
                continue
            image, result = (1, channels, high, wide), (1, channels, 2 * high, 2 * wide)
            for form in forms:
                call = _TO_FLOATS if form == "qdq" else _TO_PHASES
                program = _Program(call, image, result, "u8", chained=False)
                self._ask(side, str(channels), f"transposed {form}", program, form, optimize=True)

    def _prices(self, side: int) -> Prices:
        pairs = {key[1:]: pair for key, pair in self._pairs.items() if key[0] == side}
        seconds = {key: pair.seconds() for key, pair in pairs.items()}
        unit = seconds["rescale", "codes"]
        if not unit:
            raise InputError("the clock is too coarse, or the machine too busy", code="no-prices")
        units = {key: value / unit for key, value in seconds.items()}
        # A cast is half a rescale, and reading bits in another way is nothing.
        codes = {"quant.rescale": 1.0, "quant.scast": 0.0}
        codes |= dict.fromkeys(("quant.dcast", "quant.qcast"), 0.5)
        codes |= {n: _rounded(v) for (n, kind), v in units.items() if kind == "codes"}
        del codes["rescale"]
        clip = units["nn.clip", "floats"] / 2
        floats = {n: _rounded(max(v - clip, 0)) for (n, k), v in units.items() if k == "floats"}

        def forms(kind: str) -> dict[str, Pair]:
            return {
                n: (_rounded(v), _rounded(units[n, f"{kind}qoperator"]))
                for (n, k), v in units.items()
                if k == f"{kind}qdq"
            }

        few = [_rounded(units[str(n), "channels"] * CHANNELS) for n in _FEW]
        return Prices(
            pairs["rescale", "codes"].elements,
            _rounded(unit * 1e9),
            codes,
            floats,
            forms(""),
            {int(channels): pair for channels, pair in forms("transposed ").items()},
            {n: _rounded(v) for (n, kind), v in units.items() if kind == "apart"},
            # Per position, of which the result has as many channels.
            {"nn.conv2d": (few[0], few[1])},
        )

    def _ask(
        self,
        side: int,
        name: str,
        kind: str,
        program: _Program,
        form: Form = "qdq",
        *,
        optimize: bool = False,
    ) -> None:
        few, many = (self._timed(program.text(copies), form, optimize) for copies in COPIES)
        size = max(math.prod(program.takes), math.prod(program.gives))
        self._pairs[side, name, kind] = _Pair(few, many, size, *self.sides[side])

    def _timed(self, text: str, form: Form, optimize: bool) -> _Timed:
        import numpy as np

        ctx = new_context()
        try:
            model = write_model(read_module(text, ctx), ctx, form=form).whole()
            engine = OrtEngine(model, optimize=optimize)
        except QError as error:
            error.notes = (*error.notes, f"the model to measure: {text}")
            raise
        rng, inputs = np.random.default_rng(0), dict[str, Any]()
        for port in engine.ports:
            values = rng.uniform(0.1, 0.9, tuple(port["shape"])) * _HIGHEST[port["type"]]
            inputs[port["name"]] = values.astype(port["type"])
        engine.nanoseconds(inputs)
        return _Timed(engine, inputs)


@dataclass(frozen=True)
class _Program:
    """A function of some copies of a call from one shape to another: `chained`, each on the
    result of the one before, in memory that is in use; or side by side, no two of them in one
    scale.  After each of them floats of a chain are clipped, so that they stay ordinary
    numbers."""

    call: str
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    #: of codes; None: floats
    storage: str | None
    chained: bool = True
    #: on floats, flattened before they are quantized
    apart: bool = False

    def text(self, copies: int) -> str:
        image = self._type(self.takes, 0.005)
        source, before = "%x", image
        lines: list[str] = []
        results: list[tuple[str, str]] = []
        for index in range(copies):
            scale = 0.005 + index / 2**16
            result = self._type(self.gives, scale)
            if self.chained and (self.call in CALLS.values() or self.call == _ONE_TAP):
                result = image
            elif self.call == _TRANSPOSE:  # there and back
                result = self._type(self.gives, 0.005) if index % 2 == 0 else image
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
        kinds, lines = [before] * self.call.count("%x"), list[str]()
        written = self.call.replace("%x", source)
        for name, (value, kind, stored) in self._constants(scale).items():
            if name in written:
                lines.append(f"  {name}{index} = nn.constant dense<{value}> : {stored} : {kind}")
                written = written.replace(name, f"{name}{index}")
                kinds.append(kind)
        if self.apart:
            return self._apart(index, source, before, result)
        if self.call.startswith("quant."):
            return [*lines, f"  %r{index} = {written} : {before} to {result}"]
        floats = self.storage is None and self.chained
        made = f"%t{index}" if floats else f"%r{index}"
        if self.call == _TO_PHASES:
            kind = self._phases(index, written.partition("; ")[0], kinds, scale, lines)
            kinds, written = [kind], f"nn.transpose %image{index} perm [0, 3, 1, 2]"
        lines.append(f"  {made} = {written} : ({', '.join(kinds)}) -> {result}")
        if floats:
            lines.append(f"  %r{index} = {_CLIP} : ({result}) -> {result}".replace("%x", made))
        return lines

    def _phases(
        self, index: int, conv: str, kinds: list[str], scale: float, lines: list[str]
    ) -> str:
        """Add a convolution to phases, and what makes them `%image`; the type of that."""
        channels, high, wide = self.takes[1:]
        steps = (
            (conv, "channels", (1, 4 * channels, high, wide)),
            ("nn.transpose %channels perm [0, 2, 3, 1]", "pixels", (1, high, wide, 4 * channels)),
            ("nn.reshape %pixels", "blocks", (1, high, wide, 2, 2 * channels)),
            ("nn.transpose %blocks perm [0, 1, 3, 2, 4]", "rows", (1, high, 2, wide, 2 * channels)),
            ("nn.reshape %rows", "image", (1, 2 * high, 2 * wide, channels)),
        )
        before = ""
        for text, name, shape in steps:
            kind = self._type(shape, scale)
            call = text.replace(f"%{before}", f"%{before}{index}") if before else text
            lines.append(f"  %{name}{index} = {call} : ({', '.join(kinds)}) -> {kind}")
            before, kinds = name, [kind]
        return kinds[0]

    def _apart(self, index: int, source: str, before: str, result: str) -> list[str]:
        takes, gives = _type(self.takes), _type(self.gives)
        flat = (self.gives[0], math.prod(self.gives[1:]))
        codes = result.replace(_type(self.gives)[: -len("f32>")], _type(flat)[: -len("f32>")])
        written = self.call.replace("%x", f"%f{index}")
        return [
            f"  %f{index} = quant.dcast {source} : {before} to {takes}",
            f"  %g{index} = {written} : ({takes}) -> {gives}",
            f"  %h{index} = nn.flatten %g{index} : ({gives}) -> {_type(flat)}",
            f"  %q{index} = quant.qcast %h{index} : {_type(flat)} to {codes}",
            f"  %r{index} = nn.reshape %q{index} : ({codes}) -> {result}",
        ]

    def _constants(self, scale: float) -> dict[str, tuple[str, str, str]]:
        """By name: a value, the type, and the type of what is stored."""
        side = self.takes[-1]

        def weight(value: int, *shape: int) -> tuple[str, str, str]:
            return str(value), _type(shape, "i8:f32, 0.01"), _type(shape, None, "i8")

        channels = self.takes[1]
        floats = ("0.5", "tensor<32xf32>", "tensor<32xf32>")
        return {
            "%entries": ("7", _type((256,), f"u8:f32, {scale}:1"), "tensor<256xi8>"),
            "%kernel": weight(5, 32, 32, 3, 3),
            "%few": weight(5, 32, channels, 3, 3),
            "%matrix": weight(5, side, side),
            "%spread": weight(5, channels, channels, 2, 2),
            "%phases": weight(5, 4 * channels, channels, 1, 1),
            "%indices": ("3", "tensor<32xi64>", "tensor<32xi64>"),
            "%taps": weight(64, 32, 1, 1, 1),
            "%offsets": ("64", "tensor<32x!quant.uniform<i32:f32, 0.00005>>", "tensor<32xi32>"),
            **dict.fromkeys(("%scale", "%bias", "%mean", "%variance"), floats),
            "%slopes": ("0.2", "tensor<32x1x1xf32>", "tensor<32x1x1xf32>"),
        }

    def _type(self, shape: tuple[int, ...], scale: float) -> str:
        return _type(shape, self.storage and f"{self.storage}:f32, {scale}:1")


def _type(shape: tuple[int, ...], qparams: str | None = None, stored: str = "f32") -> str:
    element = stored if not qparams else f"!quant.uniform<{qparams}>"
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def _rounded(value: float) -> float:
    """To four digits: measurements say no more."""
    return float(f"{value:.4g}")
