"""Files in LiteRT and ONNX Runtime, run on the same samples and timed in turns, in a child process.

LiteRT ends its process on some files, so that all of this happens in a process of its own; if
that dies, its files are run one by one, and the one that kills it is told.  Samples are float
arrays in the order and layout of a reference network: an input of a file that is of another
layout (channels last) is transposed, one of codes is quantized; outputs come back as the floats
they mean, in the layout of the reference, next to the codes that were stored.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

RESOLVERS = {
    "litert-xnn": "AUTO",
    "litert-opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "litert-ref": "BUILTIN_REF",
}
_CHILD = """
import sys
from pathlib import Path
from tools.bench.litert_run import answer_folder
answer_folder(Path(sys.argv[1]))
"""
FEWEST, MOST = 12, 400
"""Turns of timing, however slow or fast the files are."""

Array = np.ndarray
Sample = Sequence[Array]


@dataclass(frozen=True)
class Job:
    """A file, and what runs it: one of `RESOLVERS`, `onnxruntime`, or `onnxruntime-plain` (its
    optimizations off)."""

    name: str
    path: Path
    engine: str = "litert-xnn"


@dataclass
class Ran:
    """What became of a job; times are of one run, in milliseconds of processor time; `ratio` is
    the median over turns of the time over that of the first job that ran, with quartiles."""

    outputs: list[list[Array]] = field(default_factory=list)
    """By sample, then by output."""
    codes: list[list[Array]] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    """Of outputs that are codes, by output; 0 for others."""
    milliseconds: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    why: str = ""
    """Why there is nothing."""


def run_jobs(
    jobs: Sequence[Job],
    samples: Sequence[Sample],
    *,
    seconds: float = 0.0,
    limit: float = 900.0,
    shapes: Sequence[tuple[int, ...]] = (),
) -> dict[str, Ran]:
    """Run all jobs on all samples, then time them in turns for `seconds` (0: not at all) on the
    first sample.  `shapes` are the shapes of outputs in the layout of the reference."""
    found = _child(jobs, samples, seconds, limit, shapes)
    if isinstance(found, dict):
        return found
    if len(jobs) == 1:
        return {jobs[0].name: Ran(why=found)}
    alone = {
        job.name: run_jobs([job], samples, limit=limit, shapes=shapes)[job.name] for job in jobs
    }
    good = [job for job in jobs if not alone[job.name].why]
    if good and len(good) < len(jobs):
        alone |= run_jobs(good, samples, seconds=seconds, limit=limit, shapes=shapes)
    return alone


def _child(
    jobs: Sequence[Job],
    samples: Sequence[Sample],
    seconds: float,
    limit: float,
    shapes: Sequence[tuple[int, ...]],
) -> dict[str, Ran] | str:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        asked = ([*jobs], [list(s) for s in samples], seconds, list(shapes))
        (folder / "asked").write_bytes(pickle.dumps(asked))
        command = [sys.executable, "-c", _CHILD, str(folder)]
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=variables, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no end in {limit:.0f} s"
        if (folder / "said").exists():
            return pickle.loads((folder / "said").read_bytes())
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return f"the process ended with {done.returncode}: {(said or [''])[-1][:120]}"


# -- in the child ------------------------------------------------------------------------------


def _fit(value: Array, shape: Sequence[int]) -> Array:
    """An array in the layout of a port: as it is, or with the other order of channels."""
    if tuple(value.shape) == tuple(shape) or value.ndim != len(shape):
        return value.reshape(shape) if value.size == math.prod(shape) else value
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1)):
        turned = tuple(value.shape[a] for a in order) if len(order) == value.ndim else ()
        if turned == tuple(shape):
            return value.transpose(order)
    return value


def _codes(value: Array, kind: Any, qparams: tuple[float, int]) -> Array:
    scale, zero = qparams
    limits = np.iinfo(kind)
    return np.clip(np.rint(value / np.float32(scale)) + zero, limits.min, limits.max).astype(kind)


class _LiteRT:
    """One file in one resolver."""

    def __init__(self, job: Job, sample: Sample) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = getattr(OpResolverType, RESOLVERS[job.engine])
        self.engine = Interpreter(
            str(job.path), num_threads=1, experimental_op_resolver_type=resolver
        )
        ports: list[dict[str, Any]] = self.engine.get_input_details()
        self.order = _matched(
            [v.shape for v in sample], [tuple(p["shape_signature"]) for p in ports]
        )
        for port, index in zip(ports, self.order, strict=True):
            if (port["shape_signature"] < 0).any():
                self.engine.resize_tensor_input(port["index"], sample[index].shape)
        self.engine.allocate_tensors()
        self.inputs: list[dict[str, Any]] = self.engine.get_input_details()
        self.outputs: list[dict[str, Any]] = self.engine.get_output_details()

    def feed(self, sample: Sample) -> None:
        self.engine.reset_all_variables()  # states of recurrent ops outlive a run
        for port, index in zip(self.inputs, self.order, strict=True):
            value = _fit(sample[index], tuple(port["shape"]))
            kind = np.dtype(port["dtype"])
            if kind != value.dtype:
                quantized = kind.kind in "iu" and port["quantization"][0]
                value = (
                    _codes(value, kind, port["quantization"]) if quantized else value.astype(kind)
                )
            self.engine.set_tensor(port["index"], np.ascontiguousarray(value))

    def invoke(self) -> None:
        self.engine.invoke()

    def read(self) -> tuple[list[Array], list[Array], list[float]]:
        stored = [np.array(self.engine.get_tensor(port["index"])) for port in self.outputs]
        meant, scales = [], []
        for port, value in zip(self.outputs, stored, strict=True):
            scale, zero = port["quantization"]
            coded = value.dtype.kind in "iu" and scale != 0
            scales.append(float(scale) if coded else 0.0)
            real = (value.astype(np.int64) - zero).astype(np.float32) * np.float32(scale)
            meant.append(real if coded else value)
        return meant, stored, scales


class _Onnx:
    """One file in ONNX Runtime."""

    def __init__(self, job: Job, sample: Sample) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if job.engine.endswith("plain"):
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.engine = ort.InferenceSession(
            str(job.path), options, providers=["CPUExecutionProvider"]
        )
        self.ports = self.engine.get_inputs()
        self.feeds: dict[str, Array] = {}
        self.found: Sequence[Any] = []

    def feed(self, sample: Sample) -> None:
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}
        self.feeds = {
            port.name: value.astype(kinds.get(port.type, value.dtype))
            for port, value in zip(self.ports, sample, strict=True)
        }

    def invoke(self) -> None:
        self.found = self.engine.run(None, self.feeds)

    def read(self) -> tuple[list[Array], list[Array], list[float]]:
        return list(self.found), list(self.found), [0.0] * len(self.found)


def _matched(given: Sequence[tuple[int, ...]], ports: Sequence[tuple[int, ...]]) -> list[int]:
    """For each port, which of the given arrays is meant: in order, among those of its size."""
    left, found = list(range(len(given))), []
    for shape in ports:
        fitting = [
            i
            for i in left
            if all(e >= 0 for e in shape) and math.prod(given[i]) == math.prod(shape)
        ]
        chosen = (fitting or left)[0]
        left.remove(chosen)
        found.append(chosen)
    return found


def _answer(engine: Any, samples: Sequence[Sample], shapes: Sequence[tuple[int, ...]]) -> Ran:
    ran = Ran()
    for sample in samples:
        engine.feed(sample)
        engine.invoke()
        meant, stored, scales = engine.read()
        if shapes and len(shapes) == len(meant):
            order = _matched([v.shape for v in meant], shapes)
            meant = [_fit(meant[i], s) for i, s in zip(order, shapes, strict=True)]
            stored = [_fit(stored[i], s) for i, s in zip(order, shapes, strict=True)]
            scales = [scales[i] for i in order]
        ran.outputs.append(meant)
        ran.codes.append(stored)
        ran.scales = scales
    return ran


def _time(engines: Mapping[str, Any], found: Mapping[str, Ran], seconds: float) -> None:
    random, end = np.random.default_rng(0), time.monotonic() + seconds
    names = list(engines)
    laps: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-3, MOST):
        if turn >= FEWEST and time.monotonic() > end:
            break
        for index in random.permutation(len(names)):
            name = names[index]
            engines[name].invoke()  # its own caches, not those of the one before
            start = time.process_time()
            engines[name].invoke()
            used = time.process_time() - start
            if turn >= 0:
                laps[name].append(used)
    base = np.array(laps[names[0]])
    for name in names:
        own, ran = np.array(laps[name]), found[name]
        ran.milliseconds = float(np.median(own)) * 1e3
        ran.low, ran.ratio, ran.high = (float(v) for v in np.percentile(own / base, [25, 50, 75]))


def answer_folder(folder: Path) -> None:
    """Do what `asked` in a folder says, and write `said`."""
    jobs, samples, seconds, shapes = pickle.loads((folder / "asked").read_bytes())
    engines, found = {}, {}
    for job in jobs:
        try:
            engine = (_LiteRT if job.engine in RESOLVERS else _Onnx)(job, samples[0])
            found[job.name] = _answer(engine, samples, shapes)
            engine.feed(samples[0])
            engines[job.name] = engine
        except Exception as error:  # what the runtime refuses
            said = (str(error).splitlines() or [repr(error)])[0]
            found[job.name] = Ran(why=said[:200])
    if seconds and engines:
        _time(engines, found, seconds)
    part = folder / "part"
    part.write_bytes(pickle.dumps(found))
    part.rename(folder / "said")


@dataclass(frozen=True)
class Nearness:
    """How near answers are to those of a reference: over all outputs and samples."""

    cosine: float = math.nan
    decibels: float = math.nan
    first: float = math.nan
    """The share of samples whose largest element of the first output is at the same place."""


def nearness(expected: Sequence[Sample], got: Sequence[Sample]) -> Nearness:
    """The least over outputs of cosine and SQNR."""
    cosines, decibels = [], []
    for index in range(len(expected[0])):
        a = np.stack([s[index].astype(np.float64).reshape(-1) for s in expected]).reshape(-1)
        b = np.stack([s[index].astype(np.float64).reshape(-1) for s in got]).reshape(-1)
        if a.shape != b.shape:
            return Nearness()
        norm = float(np.linalg.norm(a) * np.linalg.norm(b))
        cosines.append(float(a @ b) / norm if norm else math.nan)
        noise = float(np.square(a - b).sum())
        decibels.append(10 * math.log10(float(np.square(a).sum()) / noise) if noise else math.inf)
    same = [np.argmax(e[0]) == np.argmax(g[0]) for e, g in zip(expected, got, strict=True)]
    return Nearness(min(cosines), min(decibels), float(np.mean(same)))


def differing(expected: Sequence[Sample], got: Sequence[Sample]) -> tuple[int, int, float]:
    """Elements, those that are not the same bits, and the largest difference."""
    count = apart = 0
    largest = 0.0
    for one, other in zip(expected, got, strict=True):
        for a, b in zip(one, other, strict=True):
            if a.shape != b.shape:
                return a.size, a.size, math.inf
            count += a.size
            unequal = ~((a == b) | ((a != a) & (b != b)))
            apart += int(unequal.sum())
            with contextlib.suppress(ValueError):
                gap = np.abs(a.astype(np.float64) - b.astype(np.float64))[unequal]
                largest = max(largest, float(gap.max(initial=0.0)))
    return count, apart, largest


def stored_samples(place: Path, kind: str, most: int | None = None) -> list[list[Array]]:
    """Samples out of `samples.npz`: `c` to calibrate, `t` to test."""
    stored = np.load(place / "samples.npz")
    found: dict[int, dict[int, Array]] = {}
    for key in stored.files:
        if key[0] == kind and "_" in key:
            sample, port = key[1:].split("_")
            if most is None or int(sample) < most:
                found.setdefault(int(sample), {})[int(port)] = stored[key]
    return [[found[i][j] for j in sorted(found[i])] for i in sorted(found)]


def known_json(path: Path) -> dict[str, Any]:
    """A JSON file; nothing where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}
