"""What quantizes a network in the comparison: each takes a float file and samples, writes a file.

Ours is the command with no setting, or with an effort, in a process of its own; an earlier state of
this package is the same command with another folder of modules.  ONNX Runtime's tools and NNCF have
their documented defaults, per channel where they can be told to; beside them what they offer for
accuracy: SmoothQuant by Neural Compressor, and NNCF's exact bias correction with asymmetric values.

PyTorch's, TICO's and LiteRT's quantizers (`peer_makers`) take the network as a module of PyTorch:
the one that its exporter wrote, or what onnx2torch makes of the file.  What they make does not run
in ONNX Runtime: they answer the test samples in the runtime that their authors give, and no time
is compared.
"""

# pyright: basic
from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from tools.bench import corpus, others, unseen
from tools.bench.corpus import Source
from tools.bench.samples import Feeds

HERE = Path(__file__).parents[2]
Quantizer = Callable[[Source, Path, Sequence[Feeds], Path], None]
"""From the network, its float file and samples to a file."""

MAKERS = Path(__file__).with_name("peer_makers")
LIMIT, LONG = 600.0, 1800.0
"""Seconds after which a quantizer in a process of its own is given up, without a setting and with
one."""

COMMAND = "import sys; from qdialect.cli.qopt import main; sys.exit(main(sys.argv[1:]))"

NNCF = """
import sys, logging, numpy as np, onnx, nncf
logging.disable(logging.WARNING)
source, data, target, kind, how = sys.argv[1:]
model = onnx.load(source)
with np.load(data) as arrays:
    stacked = {name: arrays[name] for name in arrays.files}
count = len(next(iter(stacked.values())))
samples = [{name: array[i] for name, array in stacked.items()} for i in range(count)]
options = {"model_type": nncf.ModelType.TRANSFORMER} if kind == "transformer" else {}
if how == "accurate":
    options |= {"fast_bias_correction": False, "preset": nncf.QuantizationPreset.MIXED}
if how == "controlled":
    import onnxruntime
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    wanted = [session.run(None, sample) for sample in samples]

    def similarity(made, _):
        # 1 - noise / signal of the worst output, over the samples
        run = onnxruntime.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"])
        found = [run.run(None, sample) for sample in samples]
        worst = 1.0
        for i in range(len(wanted[0])):
            a = np.concatenate([x[i].ravel() for x in wanted]).astype(np.float64)
            b = np.concatenate([x[i].ravel() for x in found]).astype(np.float64)
            worst = min(worst, 1 - float(np.square(a - b).sum() / np.square(a).sum()))
        return worst, None

    made = nncf.quantize_with_accuracy_control(
        model, nncf.Dataset(samples), nncf.Dataset(samples), similarity,
        max_drop=0.01, subset_size=count, **options)
else:
    made = nncf.quantize(model, nncf.Dataset(samples), subset_size=count, **options)
onnx.save(made, target)
"""


def write_samples(feeds: Sequence[Feeds], path: Path) -> Path:
    """The samples as one .npz, with a leading sample axis."""
    arrays = {name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]}
    np.savez(path, allow_pickle=False, **arrays)
    return path


def ours(*flags: str, modules: Path = HERE) -> Quantizer:
    """`qopt quantize` with `flags`, of the package in the folder `modules`."""

    def quantize(_: Source, path: Path, feeds: Sequence[Feeds], target: Path) -> None:
        data = write_samples(feeds, target.with_suffix(".npz"))
        arguments = ["quantize", str(path), "--data", str(data), "-o", str(target), *flags]
        command = [sys.executable, "-P", "-c", COMMAND, *arguments, "--force", "--quiet"]
        others.run(command, LONG if flags else LIMIT, PYTHONPATH=str(modules))

    return quantize


def _prepared(source: Source, path: Path, target: Path) -> Path:
    """The file as ONNX Runtime's own preparation leaves it, which its tools ask for, in an opset
    that has scales for each channel."""
    prepared, newer = target.with_suffix(".prepared.onnx"), target.with_suffix(".newer.onnx")
    model = onnx.load(path)
    if next(o.version for o in model.opset_import if not o.domain) < corpus.OPSET:
        model = onnx.version_converter.convert_version(model, corpus.OPSET)
    for index, node in enumerate(model.graph.node):  # SmoothQuant tells nodes by their names
        node.name = node.name or f"node_{index}"
    onnx.save(model, newer)
    try:
        quant_pre_process(newer, prepared, skip_symbolic_shape=not source.inputs)
    except Exception:  # its shape inference does not know every graph
        shutil.copy(newer, prepared)
    return prepared


def _static(source: Source, path: Path, feeds: Sequence[Feeds], target: Path) -> None:
    quantize_static(
        _prepared(source, path, target),
        target,
        corpus.Reader(feeds),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        extra_options=dict(source.options),
    )


def _dynamic(source: Source, path: Path, feeds: Sequence[Feeds], target: Path) -> None:
    quantize_dynamic(_prepared(source, path, target), target, per_channel=True)


def _smooth(source: Source, path: Path, feeds: Sequence[Feeds], target: Path) -> None:
    """ONNX Runtime's static tool with `SmoothQuant`, which needs releases that go together."""
    python = others.environment(corpus.CACHE / "smooth", others.SMOOTH)
    data = write_samples(feeds, target.with_suffix(".npz"))
    prepared = _prepared(source, path, target)
    script = MAKERS / "of_smooth.py"
    others.run([str(python), "-P", str(script), str(prepared), str(data), str(target)], LIMIT)


def _nncf(how: str) -> Quantizer:
    def quantize(_: Source, path: Path, feeds: Sequence[Feeds], target: Path) -> None:
        python = others.environment(corpus.CACHE / "quantizers", others.QUANTIZERS)
        data = write_samples(feeds, target.with_suffix(".npz"))
        nodes = onnx.load(path, load_external_data=False).graph.node
        kind = "transformer" if any(n.op_type == "Softmax" for n in nodes[:-1]) else "other"
        command = [str(python), "-P", "-c", NNCF, str(path), str(data), str(target), kind, how]
        others.run(command, LIMIT)

    return quantize


def _weights(tool: str) -> Quantizer:
    """A quantizer of weights alone (`peer_makers/of_weights.py`)."""

    def quantize(_: Source, path: Path, feeds: Sequence[Feeds], target: Path) -> None:
        python = others.environment(corpus.CACHE / "quantizers", others.QUANTIZERS)
        data = write_samples(feeds, target.with_suffix(".npz"))
        script = str(MAKERS / "of_weights.py")
        others.run([str(python), "-P", script, tool, str(path), str(data), str(target)], LONG)

    return quantize


QUANTIZERS: Mapping[str, Quantizer] = {
    "runtime static": _static,
    "runtime dynamic": _dynamic,
    "runtime smooth": _smooth,
    "NNCF": _nncf("plain"),
    "NNCF accurate": _nncf("accurate"),
    "NNCF controlled": _nncf("controlled"),
    "before": ours(modules=Path(os.environ.get("QDIALECT_BEFORE", HERE))),
    "ours": ours(),
    "ours 1": ours("--effort", "1"),
    "ours 2": ours("--effort", "2"),
    "runtime W4 RTN": _weights("rtn"),
    "runtime W4 RTN, tables": _weights("tables"),
    "runtime W4 HQQ": _weights("hqq"),
    "runtime W4 GPTQ": _weights("gptq"),
    "NNCF W4": _weights("nncf"),
    "NNCF W4 data": _weights("nncf-data"),
    "ours u4": ours("--weights", "u4", "--block", "32"),
    "ours u4, tables": ours("--weights", "u4", "--block", "32", "--tables", "u4"),
}
"""`before` is the package in the folder that `QDIALECT_BEFORE` names."""

Answerer = Callable[[Source, Path, Sequence[Feeds], Sequence[Feeds], Path], None]
"""From the network, its float file, samples to calibrate on and others to what is answered to the
others: an .npz of outputs by name, and `bytes` of weights."""


def _module(environment: str, tool: str) -> Answerer:
    def answer(
        source: Source, path: Path, feeds: Sequence[Feeds], tests: Sequence[Feeds], target: Path
    ) -> None:
        python = others.environment(corpus.CACHE / environment, others.MODULES[environment])
        calibration = write_samples(feeds, target.with_suffix(".c.npz"))
        asked = write_samples(tests, target.with_suffix(".t.npz"))
        script = str(MAKERS / "of_module.py")
        command = [str(python), "-P", script, tool, source.name, str(path), str(calibration)]
        weights = unseen.minilm_weights() if source.name.startswith("minilm-d") else ""
        others.run([*command, str(asked), str(target), str(weights)], LIMIT)

    return answer


ANSWERERS: Mapping[str, Answerer] = {
    "PT2E x86": _module("tico", "x86"),
    "PT2E xnnpack": _module("tico", "xnnpack"),
    "TICO": _module("tico", "tico"),
    "TICO GPTQ": _module("tico", "tico-gptq"),
    "AI Edge static": _module("litert", "static_wi8_ai8"),
    "AI Edge dynamic": _module("litert", "dynamic_wi8_afp32"),
    "torchao W4": _module("tico", "int4"),
    "AI Edge W4": _module("litert", "dynamic_wi4_afp32"),
}
WEIGHTS4 = (
    *("runtime W4 RTN", "runtime W4 RTN, tables", "runtime W4 HQQ", "runtime W4 GPTQ"),
    *("NNCF W4", "NNCF W4 data", "torchao W4", "AI Edge W4", "ours u4", "ours u4, tables"),
)
"""Tools for weights of 4 bits."""
