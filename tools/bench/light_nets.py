"""Well-known image networks out of the onnx wheel, with weights that make sense.

The wheel ships their topologies; each weight there is one repeated number. Here they get
seeded weights (He: variance 2 / fan-in), and each batch normalization the mean and variance
that its input really has, so that activations keep their scale through the whole depth and
quantization meets the ranges it would meet in a trained network.  The last layer is scaled
until the numbers that its softmax takes have the deviation of a trained network's.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper, version_converter

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
IMAGE = (1, 3, 224, 224)
CLASS_DEVIATION = 2.5
"""Of the 1 000 numbers that make up an image's classes, in networks trained on ImageNet."""

Weights = dict[str, np.ndarray]


def image_input(name: str) -> str:
    """The name of the network's one input."""
    graph = onnx.load(LIGHT / f"light_{name}.onnx").graph
    constants = {tensor.name for tensor in graph.initializer}
    return next(value.name for value in graph.input if value.name not in constants)


def light_net(name: str, opset: int, images: np.ndarray, seed: int = 0) -> onnx.ModelProto:
    """The network `light_{name}.onnx` with weights; `images` set its batch norms."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    shapes = _take_weights(model.graph)
    weights = _draw(model.graph, shapes, np.random.default_rng(seed))
    model.graph.initializer.extend(
        numpy_helper.from_array(array, key) for key, array in weights.items()
    )
    model.ir_version = 8
    model = version_converter.convert_version(model, opset)
    _estimate_batch_norms(model, images)
    _scale_classes(model, images)
    return model


def _scale_classes(model: onnx.ModelProto, images: np.ndarray) -> None:
    """Divide the last layer's weights and bias by what its results are too wide."""
    last = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")][-1]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.append(
        helper.make_tensor_value_info(last.output[0], onnx.TensorProto.FLOAT, None)
    )
    session = ort.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = probe.graph.input[0].name
    wide = np.mean(
        [np.std(np.asarray(session.run(None, {feeds: image[None]})[0])) for image in images]
    )
    for tensor in model.graph.initializer:
        if tensor.name in last.input[1:]:
            scaled = numpy_helper.to_array(tensor) * np.float32(CLASS_DEVIATION / wide)
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))


def _take_weights(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Remove the repeated numbers; the shapes they had."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes: dict[str, tuple[int, ...]] = {}
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        extents = numpy_helper.to_array(constants.pop(node.input[0]))
        shapes[node.output[0]] = tuple(int(extent) for extent in extents)
        graph.node.remove(node)
    inputs = [value for value in graph.input if value.name not in _names(graph.initializer)]
    del graph.input[:], graph.initializer[:]
    graph.input.extend(inputs)
    graph.initializer.extend(constants.values())
    return shapes


def _names(values) -> set[str]:
    return {value.name for value in values}


def _draw(
    graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]], random: np.random.Generator
) -> Weights:
    """A weight for every name, by what the node that reads it does with it."""
    drawn: Weights = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in shapes and name not in drawn:
                values = _one(node, position, shapes[name], random)
                drawn[name] = values.astype(np.float32)
    return drawn


def _one(
    node: onnx.NodeProto, position: int, shape: tuple[int, ...], random: np.random.Generator
) -> np.ndarray:
    if node.op_type in ("Conv", "Gemm") and position == 1:
        return random.normal(0.0, np.sqrt(2.0 / np.prod(shape[1:])), shape)
    if node.op_type == "BatchNormalization":
        return np.ones(shape) if position in (1, 4) else np.zeros(shape)
    # Biases, and the scale and shift that follow a batch norm in some networks.
    scale = node.op_type == "Unsqueeze" and "_w_" in node.input[0]
    return random.uniform(0.7, 1.3, shape) if scale else random.normal(0.0, 0.05, shape)


def _estimate_batch_norms(model: onnx.ModelProto, images: np.ndarray) -> None:
    """Runs in which each batch norm uses, and reports, the statistics of its own input.

    One image at a time, since some networks reshape to a batch of one; then the average.
    """
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    nodes: list[onnx.NodeProto] = []
    found: list[str] = []
    for node in probe.graph.node:
        if node.op_type == "BatchNormalization":
            nodes += _normalize_by_batch(node)
            found += [node.input[3], node.input[4]]
        else:
            nodes.append(node)
    if not found:
        return
    constants = [tensor for tensor in probe.graph.initializer if tensor.name not in found]
    del probe.graph.node[:], probe.graph.initializer[:], probe.graph.output[:]
    probe.graph.node.extend(nodes)
    probe.graph.initializer.extend(constants)
    probe.graph.output.extend(
        helper.make_tensor_value_info(f"{name}/4d", onnx.TensorProto.FLOAT, None) for name in found
    )
    del probe.graph.value_info[:]
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = probe.graph.input[0].name
    runs = [session.run(None, {feeds: image[None]}) for image in images]
    results = {
        name: np.stack([np.asarray(run[index]).ravel() for run in runs]).mean(axis=0)
        for index, name in enumerate(found)
    }
    for tensor in model.graph.initializer:
        if tensor.name in results:
            statistics = results[tensor.name].astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(statistics, tensor.name))


def _normalize_by_batch(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """(x - mean(x)) / sqrt(variance(x) + 1e-5); scale and bias are one and zero here."""
    x, y = node.input[0], node.output[0]
    mean, variance = f"{node.input[3]}/4d", f"{node.input[4]}/4d"
    make = helper.make_node
    return [
        make("ReduceMean", [x], [mean], axes=[0, 2, 3], keepdims=1),
        make("Sub", [x, mean], [f"{y}/centered"]),
        make("Mul", [f"{y}/centered", f"{y}/centered"], [f"{y}/squared"]),
        make("ReduceMean", [f"{y}/squared"], [variance], axes=[0, 2, 3], keepdims=1),
        make("Constant", [], [f"{y}/epsilon"], value_float=1e-5),
        make("Add", [variance, f"{y}/epsilon"], [f"{y}/positive"]),
        make("Sqrt", [f"{y}/positive"], [f"{y}/deviation"]),
        make("Div", [f"{y}/centered", f"{y}/deviation"], [y]),
    ]
