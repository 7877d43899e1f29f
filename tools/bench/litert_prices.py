"""What ops cost in the LiteRT that is installed: `python -m tools.bench prices --engine litert`.

A file has several copies of an op, another one fewer (`litert_cases`); the difference of their
times is that of the op, without what a run costs by itself.  The two run in turns in one process,
and the faster half of their times counts.  Of all cases of a kernel in a state a linear function
is fitted: so many nanoseconds for each product, element read, ..., none below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from time import monotonic

from qdialect.engines.child import Child
from qdialect.errors import InputError
from qdialect.plugins.onnx.target_kernels import cast_work, elementwise
from qdialect.plugins.tflite.engine import DEFAULT, InChild, new_child
from qdialect.plugins.tflite.file.model import File, Operator
from qdialect.plugins.tflite.file.write import file_bytes
from qdialect.plugins.tflite.target_kernels import (
    CODES,
    FLOAT,
    I8,
    LEAVE,
    RUN,
    Work,
    convolution_work,
    plain_work,
)
from qdialect.targets.price_table import Kernels, Prices, PriceTable
from tests.support.model_inputs import random_arrays
from tools.bench.kernel_benchmark import Sample, Watch, fit, unwatched
from tools.bench.litert_cases import CHANNELS, SIDES, Case, cases, one
from tools.bench.litert_works import Works, is_warm, near
from tools.bench.price_benchmark import processor

COPIES = (2, 8)
_SLOW = 4e6
"""Nanoseconds of a run from which on there are fewer copies."""
_FEW_COPIES = (1, 3)
_LONGEST = 1.0
"""Seconds that a case takes at most."""
_FEWEST = 4
_RESOLUTION = 60.0
"""Nanoseconds: what a shorter time is taken as."""


@dataclass
class LitertBenchmark:
    """The measurements, of so many turns each, in a set of kernels."""

    turns: int = 16
    engine: str = DEFAULT
    child: Child | None = None

    def measure(self, watch: Watch = unwatched) -> PriceTable:
        """All prices; `watch` sees the cases go by. InputError without LiteRT."""
        found = list[Sample]()
        chosen = [(case, state) for case in cases() for state in case.states]
        for case, state in watch(chosen, "kernels"):
            sample = self.sample(case, state)
            if sample is not None:
                found.append(sample)
        found += [self.leaving(side) for side in SIDES]
        found.append(self.running())
        kernels = fit(found, _RESOLUTION)
        runtime = version("ai-edge-litert")
        return PriceTable("litert", runtime, processor(), _sizes(kernels), kernels)

    def sample(self, case: Case, state: str) -> Sample | None:
        """What a case takes in a state; None where LiteRT does not load it."""
        op = one(case, state, 1)
        works = Works(op.subgraphs[0]).of(op.subgraphs[0].operators[0])
        assert works is not None and len(works) == 1, f"{case.op} in {state}"
        many = one(case, state, COPIES[1]).subgraphs[0]
        work = near(works[0]) if is_warm(many) else works[0]
        try:
            return Sample(work, self._each(lambda copies: one(case, state, copies)))
        except InputError:
            return None

    def leaving(self, side: int) -> Sample:
        """What it takes to leave XNNPACK for one op and come back: a sum in XNNPACK and a maximum
        outside in turn, beside each of them in a row."""
        image = (1, side, side, CHANNELS)
        inside, outside = (Case(name, (image, image), image) for name in ("ADD", "MAXIMUM"))
        pair = self._each(lambda copies: _mixed(inside, outside, copies))
        alone = [self._each(lambda n, c=case: one(c, CODES, n)) for case in (inside, outside)]
        work = Work(LEAVE, CODES, elementwise(prod(image)))
        return Sample(work, max(pair - sum(alone), 1.0))

    def running(self) -> Sample:
        """What a run takes besides its op, of one on few numbers."""
        case = Case("ADD", ((1, 16), (1, 16)), (1, 16))
        each = self._each(lambda copies: one(case, FLOAT, copies))
        model = self._loaded(one(case, FLOAT, 1))
        alone = _faster_half(model.nanoseconds(warm=5, runs=50))
        return Sample(Work(RUN, CODES, {"node": 1}), max(alone - each, 1.0))

    def _each(self, file: Callable[[int], File]) -> float:
        """Nanoseconds of one copy."""
        if self.child is None or not self.child.alive:
            self.child = new_child(self.engine)
        copies = COPIES
        models = [self._loaded(file(n)) for n in copies]
        if models[1].nanoseconds(warm=1)[0] > _SLOW:
            for model in models:
                model.close()
            copies = _FEW_COPIES
            models = [self._loaded(file(n)) for n in copies]
        times: list[list[int]] = [[], []]
        began, turn = monotonic(), 0
        while turn < self.turns and (turn < _FEWEST or monotonic() - began < _LONGEST):
            for index, model in enumerate(models):
                times[index] += model.nanoseconds(warm=1, runs=2)
            turn += 1
        for model in models:
            model.close()
        few, many = (_faster_half(each) for each in times)
        return max(many - few, 1.0) / (copies[1] - copies[0])

    def _loaded(self, file: File) -> InChild:
        model = InChild(file_bytes(file), self.engine, child=self.child)
        model.nanoseconds(random_arrays(model.inputs), warm=1)
        return model


def _faster_half(times: Sequence[int]) -> float:
    half = sorted(times)[: max(len(times) // 2, 1)]
    return sum(half) / len(half)


def _mixed(inside: Case, outside: Case, copies: int) -> File:
    """One op and the other in turn, so many pairs, in a row."""
    file = one(inside, CODES, 2 * copies)
    graph = file.subgraphs[0]
    operators = list[Operator]()
    for index, op in enumerate(graph.operators):
        operators.append(Operator(outside.op, 2, op.inputs, op.outputs) if index % 2 else op)
    # A maximum copies codes: all are in one scale.
    same = graph.tensors[graph.inputs[0]].quantization
    for tensor in graph.tensors:
        tensor.quantization = same
    graph.operators[:] = operators
    return file


_UNITS = frozenset({CODES, FLOAT})


def _sizes(kernels: Kernels) -> tuple[Prices, ...]:
    """Prices per element in units of a rescale, at the sizes that were measured, by the fit."""
    return tuple(_prices(kernels, CHANNELS * side * side) for side in SIDES)


def _prices(kernels: Kernels, size: int) -> Prices:
    def time(work: Work) -> float:
        terms = kernels[work.kernel][work.state]
        return sum(terms.get(name, 0.0) * value for name, value in work.terms.items()) / size

    unit = time(cast_work("quant.rescale", size))
    if not unit:
        raise InputError("the clock is too coarse, or the machine too busy", code="no-prices")
    found: Mapping[str, dict[str, float]] = {CODES: {}, FLOAT: {}}
    for name, states in kernels.items():
        for state in _UNITS & set(states):
            if name.startswith(("nn.", "quant.")):
                window = 4 * size if "_pool" in name else 0
                price = time(plain_work(name, state, size, window)) / unit
                found[state][name] = float(f"{price:.4g}")
    codes = found[CODES]
    codes |= {"quant.rescale": 1.0, "quant.scast": 0.0}
    one_tap = convolution_work(I8, size // CHANNELS, CHANNELS, 1, 1, groups=CHANNELS, read=size)
    codes["nn.conv2d"] = float(f"{time(one_tap) / unit:.4g}")
    return Prices(size, float(f"{unit:.4g}"), codes, found[FLOAT])
