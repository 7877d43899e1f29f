"""QuantizeLinear and DequantizeLinear nodes from qparams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.algebra.float_path import reciprocals
from qdialect.algebra.qparams.parameters import Layout, QParams
from qdialect.errors import UnsupportedError
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import FLOAT_TYPES
from qdialect.plugins.onnx.dialect import DATA_TYPES

if TYPE_CHECKING:
    from qdialect.plugins.onnx.write.graph import GraphWriter

#: storage spelling -> `TensorProto.DataType`
STORAGES = {
    "u8": 2,
    "i8": 3,
    "u16": 4,
    "i16": 5,
    "i32": 6,
    "u4": 21,
    "i4": 22,
    "f8E4M3FN": 17,
    "f8E5M2": 19,
    "f4E2M1FN": 23,
    "u2": 25,
    "i2": 26,
}

#: the opset with which ONNX's own ops took integers of 4 bits
OPSET_OF_4_BITS = 21


def storage_code(qparams: QParams) -> int:
    """The ONNX element type of stored values; UnsupportedError if ONNX has none."""
    spelling = qparams.storage.spelling.replace("si", "i").replace("ui", "u")
    if spelling not in STORAGES:
        raise UnsupportedError(
            f"no ONNX quantization for storage {qparams.storage} {qparams.layout.value}"
        )
    return STORAGES[spelling]


def field_attributes(qparams: QParams) -> dict[str, int | None]:
    """Which dimension the scales go along, and the elements per block."""
    if qparams.layout is not Layout.BLOCK:
        return {"axis": qparams.axis}
    axis, block = max(qparams.blocks, key=lambda entry: entry[1])
    return {"axis": axis, "block_size": block}


def along_one(qparams: QParams, value: SSAValue) -> QParams:
    """The qparams of a value with blocks along one dimension, as ONNX has them: that of the
    longest blocks; the scales of other dimensions are repeated. UnsupportedError for a dimension
    of unknown extent that is one block."""
    if qparams.layout is not Layout.BLOCK:
        return qparams
    blocks = [dict(qparams.blocks).get(d, n) for d, n in enumerate(shape_of(value))]
    if DYNAMIC in blocks:
        raise UnsupportedError("ONNX has no block of a dimension of unknown extent")
    axis = max(range(len(blocks)), key=lambda d: blocks[d])
    scales, zeros = qparams.scale_array(), qparams.zero_point_array()
    for d, block in enumerate(blocks):
        if d != axis:
            scales, zeros = scales.repeat(block, d), zeros.repeat(block, d)
    kept = [(d, block if d == axis else 1) for d, block in enumerate(blocks)]
    values = scales.reshape(-1).tolist(), zeros.reshape(-1).tolist()
    return QParams.blockwise(qparams.storage, kept, scales.shape, *values, qparams.expressed)


def required_opset(qparams: QParams) -> int:
    """The least opset whose (or whose contrib counterpart's) Q/DQ take these qparams."""
    if qparams.storage.width == 2:
        return 25
    if qparams.storage.spelling == "f4E2M1FN":
        return 23
    if qparams.layout is Layout.BLOCK:
        return 21
    if qparams.expressed != "f32" or qparams.storage.is_float:
        return 19
    return 10 if qparams.is_per_tensor else 13


def _domain(graph: GraphWriter, qparams: QParams, opset: int) -> str:
    """ONNX's own ops took 4 and 16 bits with opset 21; before, Microsoft's do."""
    wide = qparams.storage.width in (4, 16) and opset < OPSET_OF_4_BITS
    return "com.microsoft" if wide else ""


def parameters(
    graph: GraphWriter, base: str, qparams: QParams, names: Sequence[str] = (), *, zero: bool = True
) -> list[str]:
    """Initializers for scale and zero point (left out when not `zero`).

    `names` are used for them if given, else names made from `base`.
    """
    scale = names[0] if names else f"{base}_scale"
    shape = qparams.grid
    code = DATA_TYPES[FLOAT_TYPES[qparams.expressed]]
    result = [graph.initializer(scale, code, shape, _scale_bytes(qparams))]
    if zero:
        name = names[1] if len(names) > 1 else f"{base}_zero_point"
        result.append(
            graph.initializer(name, storage_code(qparams), shape, zero_point_bytes(qparams))
        )
    return result


def _scale_bytes(qparams: QParams) -> bytes:
    import numpy as np

    scales = qparams.scale_array()
    if qparams.expressed == "bf16":
        return (scales.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    return scales.astype({"f32": "<f4", "f16": "<f2", "f64": "<f8"}[qparams.expressed]).tobytes()


def zero_point_bytes(qparams: QParams) -> bytes:
    """Zero points as ONNX raw data of the storage type."""
    return packed(qparams.zero_point_array(), qparams.storage.width)


_PIECE = 1 << 20
"""Elements packed at a time; a whole number of bytes."""


def packed(values: Any, bits: int) -> bytes:
    """Integers as ONNX raw data: narrow ones several to a byte, lowest bits first."""
    import numpy as np

    if bits >= 8:
        return values.astype(f"<i{bits // 8}").tobytes()
    per_byte, flat = 8 // bits, values.reshape(-1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    made = bytearray()
    for start in range(0, flat.size, _PIECE):
        codes = flat[start : start + _PIECE].astype(np.uint8) & ((1 << bits) - 1)
        codes = np.concatenate([codes, np.zeros(-len(codes) % per_byte, np.uint8)])
        made += np.bitwise_or.reduce(codes.reshape(-1, per_byte) << shifts, 1).tobytes()
    return bytes(made)


def write_quantize(
    graph: GraphWriter,
    source: str,
    output: str,
    qparams: QParams,
    name: str,
    opset: int,
    names: Sequence[str] = (),
) -> None:
    """`output` = QuantizeLinear(`source`), clipped to the bounds where those are narrow."""
    bare = len(names) == 1 and storage_code(qparams) == 2 and not any(qparams.zero_point_list())
    params = parameters(graph, output, qparams, names, zero=not bare)
    field = field_attributes(qparams)
    domain = _domain(graph, qparams, opset)
    target = output if qparams.storage.is_full_range else graph.tensor(f"{output}_unbounded")
    graph.node("QuantizeLinear", [source, *params], [target], name, domain, **field)
    if target != output:
        write_bounds(graph, target, output, qparams, name)


def write_reciprocal(
    graph: GraphWriter, source: str, output: str, qparams: QParams, name: str, rank: int
) -> tuple[str, QParams]:
    """The real numbers of a tensor of so many dimensions, multiplied by the reciprocals of the
    scales of `output`, in f32, and the qparams that quantize them: scales of 1, which divide
    exactly. UnsupportedError for parameters in blocks, for doubles, and for scales of which f32
    has no reciprocal.

    The runtime makes one op of a product and of some ops before it, which rounds in another way:
    a Sum stands between."""
    import numpy as np

    if qparams.layout is Layout.BLOCK:
        raise UnsupportedError("ONNX has no way to multiply by the reciprocals of blocks")
    if qparams.expressed == "f64":
        raise UnsupportedError("ONNX does not quantize f64")
    float32, axis = DATA_TYPES[FLOAT_TYPES["f32"]], qparams.axis or 0
    factors = reciprocals(qparams.scale_array(), np.dtype("<f4"))
    if not np.isfinite(factors).all():
        raise UnsupportedError("a scale is so small that its reciprocal is no f32")
    shape = () if qparams.is_per_tensor else (qparams.count, *[1] * (rank - axis - 1))
    factor = graph.initializer(f"{output}_reciprocal", float32, shape, factors.tobytes())

    def step(kind: str, inputs: Sequence[str], to: int | None = None) -> str:
        made = graph.tensor(f"{output}_{kind}")
        graph.node(kind, inputs, [made], f"{name}_{kind}", to=to)
        return made

    if qparams.expressed != "f32":
        source = step("Cast", [source], to=float32)
    elif any(source in n.output and n.op_type != "DequantizeLinear" for n in graph.nodes):
        source = step("Sum", [source])
    zeros = qparams.zero_point_list()
    if len(set(zeros)) == 1:
        unit = QParams.per_tensor(qparams.storage, 1.0, zeros[0])
    else:
        assert qparams.axis is not None
        unit = QParams.per_axis(qparams.storage, qparams.axis, [1.0] * len(zeros), zeros)
    return step("Mul", [source, factor]), unit


def write_wide_quantize(
    graph: GraphWriter, source: str, output: str, qparams: QParams, name: str, rank: int
) -> None:
    """`output`, of i32, from the real numbers of a tensor of so many dimensions, as QuantizeLinear
    would if it had that type: clamp(round(x / s) + z). From the sum on in f64, which holds i32.

    UnsupportedError for parameters in blocks."""
    import numpy as np

    if qparams.layout is Layout.BLOCK:
        raise UnsupportedError("ONNX has no way to quantize to i32 in blocks")
    count, axis = qparams.count, qparams.axis or 0
    shape = () if qparams.is_per_tensor else (count, *[1] * (rank - axis - 1))
    code, double = (DATA_TYPES[FLOAT_TYPES[name]] for name in (qparams.expressed, "f64"))
    scale = graph.initializer(f"{output}_scale", code, shape, _scale_bytes(qparams))

    def step(kind: str, inputs: Sequence[str], to: int | None = None) -> str:
        made = graph.tensor(f"{output}_{kind}")
        graph.node(kind, inputs, [made], f"{name}_{kind}", to=to)
        return made

    value = step("Round", [step("Div", [source, scale])])
    value = step("Cast", [value], to=double)
    if any(qparams.zero_point_list()):
        zeros = qparams.zero_point_array().astype("<f8").tobytes()
        value = step("Add", [value, graph.initializer(f"{output}_zero", double, shape, zeros)])
    bounds = [
        graph.initializer(f"{output}_{which}", double, (), np.array(bound, "<f8").tobytes())
        for which, bound in (("low", qparams.storage.min), ("high", qparams.storage.max))
    ]
    value = step("Clip", [value, *bounds])
    graph.node("Cast", [value], [output], f"{name}_codes", to=storage_code(qparams))


def write_bounds(graph: GraphWriter, source: str, output: str, qparams: QParams, name: str) -> None:
    """`output` = `source` clipped to storage bounds narrower than the type's."""
    storage, code = qparams.storage, storage_code(qparams)
    if storage.width not in (8, 16) or storage.is_float:
        raise UnsupportedError(f"ONNX cannot keep values within storage {storage}")
    import numpy as np

    # Runtimes clip integers of 8 and of 32 bits.
    wide = storage.width == 16
    clipped, width = (STORAGES["i32"], 32) if wide else (code, 8)
    bounds = [
        graph.initializer(f"{output}_{which}", clipped, (), packed(np.array(value), width))
        for which, value in (("low", storage.min), ("high", storage.max))
    ]
    if not wide:
        graph.node("Clip", [source, *bounds], [output], f"{name}_bounds")
        return
    ints, inside = graph.tensor(f"{output}_ints"), graph.tensor(f"{output}_inside")
    graph.node("Cast", [source], [ints], f"{name}_ints", to=clipped)
    graph.node("Clip", [ints, *bounds], [inside], f"{name}_bounds")
    graph.node("Cast", [inside], [output], f"{name}_codes", to=code)


def write_dequantize(
    graph: GraphWriter,
    source: str,
    output: str,
    qparams: QParams,
    name: str,
    opset: int,
    names: Sequence[str] = (),
) -> None:
    """`output` = DequantizeLinear(`source`)."""
    zero = len(names) != 1 or any(qparams.zero_point_list())
    params = parameters(graph, source, qparams, names, zero=zero)
    field = field_attributes(qparams)
    domain = _domain(graph, qparams, opset)
    graph.node("DequantizeLinear", [source, *params], [output], name, domain, **field)


def write_cast_and_scaled(
    graph: GraphWriter, source: str, output: str, qparams: QParams, name: str, rank: int
) -> None:
    """`output` = (`source` - zero point) * scale as Cast, Sub and Mul in f32, of a tensor of so
    many dimensions: the bits of DequantizeLinear for integers of up to 16 bits, not in blocks.

    A runtime that folds constants as it loads a model folds these; DequantizeLinear, which may
    become part of an integer kernel, it does not."""
    import numpy as np

    below = 0 if qparams.axis is None else rank - qparams.axis - 1
    column = () if qparams.is_per_tensor else (-1, *(1 for _ in range(below)))
    value = graph.tensor(f"{output}_cast")
    graph.node("Cast", [source], [value], f"{name}_Cast", to=DATA_TYPES[FLOAT_TYPES["f32"]])
    if any(qparams.zero_point_list()):
        zeros = qparams.zero_point_array().astype(np.float32).reshape(column)
        less = graph.tensor(f"{output}_centered")
        graph.node("Sub", [value, graph.array(f"{source}_zero", zeros)], [less], f"{name}_Sub")
        value = less
    scales = qparams.scale_array().astype(np.float32).reshape(column)
    graph.node("Mul", [value, graph.array(f"{source}_scale", scales)], [output], name)
