"""What the demo and the benchmarks measure: latency, agreement, and what a graph consists of."""

# pyright: basic
from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto

Feeds = Mapping[str, np.ndarray]
Outputs = list[np.ndarray]

FLOAT_TYPES = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


def session(
    model: Path, *, optimized: bool = True, threads: int = 1, save: Path | None = None
) -> ort.InferenceSession:
    """An ONNX Runtime session with all of its optimizations, or with none of them.

    With `save` the graph that is actually run is written there.
    """
    levels = ort.GraphOptimizationLevel
    options = ort.SessionOptions()
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    )
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    if save is not None:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def run_all(model: ort.InferenceSession, samples: Sequence[Feeds]) -> Outputs:
    """Every output of the model, stacked over the samples."""
    results = [model.run(None, dict(feeds)) for feeds in samples]
    return [np.stack(column) for column in zip(*results, strict=True)]


@dataclass(frozen=True)
class Timing:
    """Milliseconds per run: median and quartiles of the time on the clock, and the median
    of the processor time, which leaves out what the machine did for others meanwhile."""

    median: float
    low: float
    high: float
    processor: float
    runs: int

    @staticmethod
    def of(clock: Sequence[float], processor: Sequence[float]) -> Timing:
        low, median, high = np.percentile(np.asarray(clock) * 1e3, [25, 50, 75])
        used = 1e3 * float(np.median(processor))
        return Timing(float(median), float(low), float(high), used, len(clock))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def latency(
    models: Mapping[str, ort.InferenceSession],
    samples: Sequence[Feeds],
    *,
    rounds: int = 300,
    warm_up: int = 20,
    seed: int = 0,
) -> dict[str, Timing]:
    """Run the models in turns, in a new order each round, so that they share what the
    machine does meanwhile."""
    random = np.random.default_rng(seed)
    names = list(models)
    clock: dict[str, list[float]] = {name: [] for name in names}
    processor: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(-warm_up, rounds):
        feeds = dict(samples[round_ % len(samples)])
        for index in random.permutation(len(names)):
            start, used = time.perf_counter(), time.process_time()
            models[names[index]].run(None, feeds)
            used, elapsed = time.process_time() - used, time.perf_counter() - start
            if round_ >= 0:
                clock[names[index]].append(elapsed)
                processor[names[index]].append(used)
    return {name: Timing.of(clock[name], processor[name]) for name in names}


@dataclass(frozen=True)
class Agreement:
    """How far outputs are from a reference, in steps of the output's quantization."""

    elements: int
    differing: int
    max_steps: float

    @property
    def share(self) -> float:
        return self.differing / self.elements if self.elements else 0.0

    def __str__(self) -> str:
        if not self.differing:
            return "none"
        steps = f"{self.max_steps:.3g}"
        return f"{100 * self.share:.1f} %, {steps} step{'' if steps == '1' else 's'}"


def agreement(reference: Outputs, outputs: Outputs, steps: Sequence[float | None]) -> Agreement:
    """Compare outputs; a step of None means that output is not quantized, and its
    differences are counted in units of its largest magnitude / 255."""
    elements = differing = 0
    largest = 0.0
    for expected, got, step in zip(reference, outputs, steps, strict=True):
        distance = np.abs(expected.astype(np.float64) - got.astype(np.float64))
        unit = step or float(np.abs(expected).max()) / 255 or 1.0
        # Integer outputs decoded in float32 may differ in the last bit and mean the same.
        apart = distance > unit * 1e-4
        elements += distance.size
        differing += int(apart.sum())
        largest = max(largest, float(distance.max(initial=0.0)) / unit)
    return Agreement(elements, differing, largest)


def sqnr(reference: Outputs, outputs: Outputs) -> float:
    """Signal to quantization noise in dB, over all outputs."""
    pairs = list(zip(reference, outputs, strict=True))
    signal = sum(float(np.square(expected, dtype=np.float64).sum()) for expected, _ in pairs)
    noise = sum(
        float(np.square(expected.astype(np.float64) - got).sum()) for expected, got in pairs
    )
    return 10 * math.log10(signal / noise) if noise else math.inf


def output_steps(model: onnx.ModelProto) -> list[float | None]:
    """The scale each output was dequantized with, if it comes out of a dequantize."""
    scales = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    made_by = {name: node for node in model.graph.node for name in node.output}

    def step(name: str) -> float | None:
        node = made_by.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return None
        scale = scales.get(node.input[1])
        return float(scale) if scale is not None and scale.size == 1 else None

    return [step(output.name) for output in model.graph.output]


@dataclass(frozen=True)
class OpCounts:
    """What a graph consists of, constants left out.

    `conversions` are quantizes and dequantizes; a quantize of a dequantized value, with
    nothing in between, is counted under `rescales` as well. `float_ops` are the other ops
    that read or write floating point.
    """

    nodes: int
    quantizes: int
    dequantizes: int
    rescales: int
    float_ops: int

    @property
    def conversions(self) -> int:
        return self.quantizes + self.dequantizes


_QUANTIZE = {"QuantizeLinear", "DynamicQuantizeLinear"}
_INTEGER_OPS = {"QGemm", "ConvInteger", "MatMulInteger"}
_BOOLEAN = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Not"}
_INDEX = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"}


def _result_type(node: onnx.NodeProto, types: Mapping[str, int]) -> int:
    """The element type of a node's result, from its name and what it reads."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    kind = node.op_type
    if kind == "Cast":
        return attributes["to"].i
    if kind == "ConstantOfShape":
        return attributes["value"].t.data_type if "value" in attributes else TensorProto.FLOAT
    if kind in _BOOLEAN:
        return TensorProto.BOOL
    if kind in _INDEX:
        return TensorProto.INT64
    if kind == "DequantizeLinear" or kind.endswith("ToFloat"):
        return TensorProto.FLOAT
    if kind in _QUANTIZE or kind.startswith("QLinear") or kind in _INTEGER_OPS:
        return TensorProto.UINT8
    data = node.input[1:] if kind == "Where" else node.input
    return next((types[name] for name in data if name in types), TensorProto.UNDEFINED)


def _is_float_op(node: onnx.NodeProto, types: Mapping[str, int]) -> bool:
    """QLinear kernels take float scales and compute in integers."""
    if node.op_type.startswith("QLinear") or node.op_type in _INTEGER_OPS:
        return any(types.get(name) in FLOAT_TYPES for name in node.output)
    return any(types.get(name) in FLOAT_TYPES for name in (*node.input, *node.output))


def count_ops(model: onnx.ModelProto) -> OpCounts:
    """Count what one graph consists of."""
    graph = model.graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    made_by: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for node in graph.node:
        if node.op_type == "Constant":
            types[node.output[0]] = next(
                (a.t.data_type for a in node.attribute if a.name == "value"), TensorProto.FLOAT
            )
            continue
        types |= dict.fromkeys(node.output, _result_type(node, types))
        made_by |= dict.fromkeys(node.output, node.op_type)
        counts["nodes"] += 1
        if node.op_type in _QUANTIZE:
            counts["quantizes"] += 1
            counts["rescales"] += made_by.get(node.input[0]) == "DequantizeLinear"
        elif node.op_type == "DequantizeLinear":
            counts["dequantizes"] += 1
        else:
            counts["float_ops"] += _is_float_op(node, types)
    keys = ("nodes", "quantizes", "dequantizes", "rescales", "float_ops")
    return OpCounts(**{key: counts[key] for key in keys})


def top1(outputs: np.ndarray) -> np.ndarray:
    """The winning class of each sample."""
    return outputs.reshape(len(outputs), -1).argmax(axis=1)
