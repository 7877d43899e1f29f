"""Small TFLite models for tests, and LiteRT to run them.

The models are made with the schema package of LiteRT, not with our writer, so that they test it:

    y = tensor("y", (1, 4), "INT8", scales=[0.1], zero_points=[3])
    x = tensor("x", (1, 4), "INT8", scales=[0.2], zero_points=[0])
    data = model([x], [y], [op("RELU", ["x"], ["y"])])
    (codes,) = run_litert(data, [np.zeros((1, 4), np.int8)], resolver="ref")

Ops name their tensors; "" is an input that is absent. Options are by the names of the schema's
fields, enums by their names or numbers: `{"padding": "SAME", "stride_w": 2, "stride_h": 2}`.
"""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import atexit
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")

TYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "BOOL": np.bool_,
}

_TABLES = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "SUM": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_ALL": "ReducerOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "PADV2": "PadV2Options",
    "SELECT_V2": "SelectV2Options",
    "TOPK_V2": "TopKV2Options",
    "RNN": "RNNOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "BIDIRECTIONAL_SEQUENCE_RNN": "BidirectionalSequenceRNNOptions",
    "LSTM": "LSTMOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTMOptions",
    "SVDF": "SVDFOptions",
    "LSH_PROJECTION": "LSHProjectionOptions",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "REVERSE_V2": "ReverseV2Options",
    "BROADCAST_TO": "BroadcastToOptions",
    "CONV_3D": "Conv3DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "ATAN2": "ATan2Options",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "BATCH_TO_SPACE_ND": "BatchToSpaceNDOptions",
    "SPACE_TO_BATCH_ND": "SpaceToBatchNDOptions",
    "MULTINOMIAL": "RandomOptions",
    "RANDOM_UNIFORM": "RandomOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions",
    "RFFT2D": "Rfft2dOptions",
    "STABLEHLO_COMPOSITE": "StableHLOCompositeOptions",
}

_ENUMS = {
    "padding": "Padding",
    "fused_activation_function": "ActivationFunctionType",
    "mode": "MirrorPadMode",
    "kernel_type": "LSTMKernelType",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "combiner": "CombinerType",
    "type": "LSHProjectionType",
    "reduce_function": "ReduceWindowFunction",
    "comparison_direction": "StablehloComparisonDirection",
    "compare_type": "StablehloComparisonType",
    "composite_attributes_format": "CustomOptionsFormat",
    "algorithm": "RngAlgorithm",
}


def tensor(
    name: str,
    shape: Sequence[int],
    type: str = "FLOAT32",
    scales: Any = None,
    zero_points: Any = None,
    axis: int = 0,
    data: Any = None,
    *,
    signature: Sequence[int] | None = None,
    variable: bool = False,
    blocks: tuple[str, int] | None = None,
    quantization: Any = None,
) -> dict[str, Any]:
    """A tensor. `data` (an array, or bytes as they are) makes it constant; INT4 and INT2 numbers
    are given one to an element. `zero_points` default to 0, `scales` may be one number;
    `blocks` names the tensor of the scales of blocks and their size."""
    return {
        "name": name,
        "shape": tuple(shape),
        "type": type,
        "scales": None if scales is None else np.atleast_1d(np.asarray(scales, np.float32)),
        "zero_points": None if zero_points is None else np.atleast_1d(zero_points),
        "axis": axis,
        "data": data,
        "signature": signature,
        "variable": variable,
        "blocks": blocks,
        "quantization": quantization,
    }


def op(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    options: Mapping[str, Any] | None = None,
    version: int = 1,
    *,
    table: str | None = None,
    custom: bytes | None = None,
    intermediates: Sequence[str] = (),
) -> dict[str, Any]:
    """An operator. `options` None writes the table with the schema's defaults (none where the
    schema has none for the op); `custom` bytes make it a custom op of this name."""
    return {
        "name": name,
        "inputs": list(inputs),
        "outputs": list(outputs),
        "options": dict(options or {}),
        "version": version,
        "table": table,
        "custom": custom,
        "intermediates": list(intermediates),
    }


def constant_bytes(data: Any, type: str) -> bytes:
    """The bytes of a constant in a file: 4-bit numbers two to a byte, the low half first."""
    if isinstance(data, bytes):
        return data
    if type in ("INT4", "UINT4", "INT2"):
        bits = 2 if type == "INT2" else 4
        per = 8 // bits
        flat = np.asarray(data, np.int8).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
        flat = np.concatenate([flat, np.zeros(-len(flat) % per, np.uint8)]).reshape(-1, per)
        shifts = np.arange(per, dtype=np.uint8) * bits
        return np.bitwise_or.reduce(flat << shifts, axis=1).astype(np.uint8).tobytes()
    return np.ascontiguousarray(data, TYPES[type]).tobytes()


def model(
    inputs: Sequence[Mapping[str, Any]] | None = None,
    outputs: Sequence[Mapping[str, Any]] | None = None,
    ops: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Mapping[str, Any]] = (),
    *,
    subgraphs: Sequence[Mapping[str, Any]] | None = None,
    signatures: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] | None = None,
    metadata: Mapping[str, bytes] | None = None,
    description: str = "",
) -> bytes:
    """A file. `others` are the tensors that are neither inputs nor outputs, constants among them.
    `subgraphs` are several functions as dicts of `inputs`, `outputs`, `ops`, `others`, `name`;
    `signatures` name inputs and outputs of the first by their tensors."""
    if subgraphs is None:
        main = {"inputs": inputs, "outputs": outputs, "ops": ops, "others": others, "name": "main"}
        subgraphs = [main]
    made = schema.ModelT()
    made.version = 3
    made.description = description
    made.buffers = [schema.BufferT()]
    made.operatorCodes = []
    made.subgraphs = []
    numbers: list[dict[str, int]] = []
    for graph in subgraphs:
        found, number = _subgraph(made, graph)
        made.subgraphs.append(found)
        numbers.append(number)
    made.signatureDefs = []
    for key, (takes, gives) in (signatures or {}).items():
        entry = schema.SignatureDefT()
        entry.signatureKey, entry.subgraphIndex = key, 0
        entry.inputs = [_map(name, numbers[0][t]) for name, t in takes.items()]
        entry.outputs = [_map(name, numbers[0][t]) for name, t in gives.items()]
        made.signatureDefs.append(entry)
    made.metadata = []
    for name, held in (metadata or {}).items():
        entry = schema.MetadataT()
        entry.name, entry.buffer = name, _buffer(made, held)
        made.metadata.append(entry)
    builder = flatbuffers.Builder(1024)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _map(name: str, number: int) -> Any:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name, number
    return entry


def _buffer(made: Any, held: bytes) -> int:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(held, np.uint8)
    made.buffers.append(buffer)
    return len(made.buffers) - 1


def _subgraph(made: Any, graph: Mapping[str, Any]) -> tuple[Any, dict[str, int]]:
    tensors: list[Mapping[str, Any]] = []
    for group in ("inputs", "outputs", "others"):
        names = {t["name"] for t in tensors}
        tensors += [t for t in graph.get(group) or () if t["name"] not in names]
    number = {t["name"]: index for index, t in enumerate(tensors)}
    number[""] = -1
    result = schema.SubGraphT()
    result.name = graph.get("name", "main")
    result.tensors = [_tensor(made, t, number) for t in tensors]
    result.inputs = [number[t["name"]] for t in graph.get("inputs") or ()]
    result.outputs = [number[t["name"]] for t in graph.get("outputs") or ()]
    result.operators = [_operator(made, o, number) for o in graph.get("ops") or ()]
    return result, number


def _tensor(made: Any, given: Mapping[str, Any], number: Mapping[str, int]) -> Any:
    result = schema.TensorT()
    result.name = given["name"]
    result.shape = list(given["shape"])
    result.type = getattr(schema.TensorType, given["type"])
    result.hasRank = True
    result.isVariable = given["variable"]
    if given["signature"] is not None:
        result.shapeSignature = list(given["signature"])
    if given["data"] is not None:
        result.buffer = _buffer(made, constant_bytes(given["data"], given["type"]))
    if given["quantization"] is not None:
        result.quantization = given["quantization"]
    elif given["scales"] is not None:
        scales = given["scales"]
        zeros = given["zero_points"]
        zeros = np.zeros(len(scales), np.int64) if zeros is None else zeros
        result.quantization = schema.QuantizationParametersT()
        result.quantization.scale = scales
        result.quantization.zeroPoint = np.broadcast_to(zeros, scales.shape).astype(np.int64)
        result.quantization.quantizedDimension = given["axis"]
    elif given["blocks"] is not None:
        details = schema.BlockwiseQuantizationT()
        details.scales, details.blockSize = number[given["blocks"][0]], given["blocks"][1]
        details.zeroPoints = -1
        result.quantization = schema.QuantizationParametersT()
        result.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
        result.quantization.details = details
        result.quantization.quantizedDimension = given["axis"]
    return result


def _operator(made: Any, given: Mapping[str, Any], number: Mapping[str, int]) -> Any:
    result = schema.OperatorT()
    result.inputs = [number[name] for name in given["inputs"]]
    result.outputs = [number[name] for name in given["outputs"]]
    if given["intermediates"]:
        result.intermediates = [number[name] for name in given["intermediates"]]
    code = schema.OperatorCodeT()
    code.version = given["version"]
    if given["custom"] is not None:
        code.builtinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = given["name"]
        result.customOptions = np.frombuffer(given["custom"], np.uint8)
    else:
        code.builtinCode = getattr(schema.BuiltinOperator, given["name"])
        _set_options(result, given)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    known = [vars(c) for c in made.operatorCodes]
    if vars(code) not in known:
        made.operatorCodes.append(code)
        known.append(vars(code))
    result.opcodeIndex = known.index(vars(code))
    return result


def options_table(name: str) -> str:
    """The options table of an op; the schema may have none of this name."""
    camel = "".join(part.capitalize() for part in name.lower().split("_"))
    return _TABLES.get(name, re.sub(r"(\d)d", r"\1D", camel) + "Options")


def _set_options(result: Any, given: Mapping[str, Any]) -> None:
    table = given["table"] or options_table(given["name"])
    if hasattr(schema.BuiltinOptions, table):
        result.builtinOptionsType = getattr(schema.BuiltinOptions, table)
    elif hasattr(schema.BuiltinOptions2, table):
        result.builtinOptions2Type = getattr(schema.BuiltinOptions2, table)
    else:
        assert not given["options"], f"no options table for {given['name']}"
        return
    options = getattr(schema, f"{table}T")()
    for name, value in given["options"].items():
        first, *rest = name.split("_")
        attribute = first + "".join(part.capitalize() for part in rest)
        assert hasattr(options, attribute), f"{table} has no field {name}"
        if isinstance(value, str) and isinstance(getattr(options, attribute), int):
            value = getattr(getattr(schema, _ENUMS.get(name, "TensorType")), value)
        setattr(options, attribute, value)
    if result.builtinOptionsType:
        result.builtinOptions = options
    else:
        result.builtinOptions2 = options


class LitertError(RuntimeError):
    """LiteRT refused a model or an input."""


class LitertAborted(LitertError):
    """LiteRT ended its process."""


_child: subprocess.Popen[bytes] | None = None


def _ask(*request: Any) -> Any:
    global _child
    if _child is None or _child.poll() is not None:
        _child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("litert_child.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(_child.kill)
    assert _child.stdin is not None and _child.stdout is not None
    try:
        pickle.dump(request, _child.stdin)
        _child.stdin.flush()
        state, answer = pickle.load(_child.stdout)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
        code = _child.wait()
        _child = None
        raise LitertAborted(f"LiteRT ended with {code}") from error
    if state == "error":
        raise LitertError(answer)
    return answer


def run_litert(data: bytes, inputs: Any, resolver: str = "xnn", *, tensors: bool = False) -> Any:
    """The outputs of the first subgraph, in their order. `inputs` are a list in the order of the
    model, or by the names of tensors; other shapes resize it. `resolver` is "xnn", "ref" or
    "opt". With `tensors` all values by name, as far as LiteRT keeps them (not with "xnn").

    Raises `LitertError` where LiteRT refuses, `LitertAborted` where its process died."""
    if isinstance(inputs, Mapping):
        inputs = dict(inputs)
    else:
        inputs = [np.asarray(value) for value in inputs]
    return _ask(bytes(data), inputs, resolver, tensors, "run")


def litert_ops(data: bytes, resolver: str = "xnn") -> list[str]:
    """The names of the ops that LiteRT prepared; `DELEGATE` is XNNPACK's part."""
    return _ask(bytes(data), [], resolver, False, "ops")
