"""`onnx.node` back as the node it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr, UnrealizedConversionCastOp
from xdsl.ir import SSAValue

from qdialect.algebra.arithmetic import requantized
from qdialect.algebra.fixed_point import FixedPoint, Form
from qdialect.algebra.quantize import storage_dtype
from qdialect.algebra.requantize import affine
from qdialect.algebra.rounding import Rounding
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.ops import ConstantOp, TableOp, constant_array, constant_of, shape_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type, quant_element
from qdialect.ir.quant.elements import is_tensor
from qdialect.plugins.onnx.dialect import AT_LOAD, DATA_TYPES, DOC, PARAMS, NodeOp
from qdialect.plugins.onnx.write.accumulators import write_scaled
from qdialect.plugins.onnx.write.graph import node_attribute
from qdialect.plugins.onnx.write.inner_graphs import domains_in
from qdialect.plugins.onnx.write.quantization import (
    along_one,
    storage_code,
    write_cast_and_scaled,
    write_dequantize,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import GraphProto

    from qdialect.algebra.qparams.parameters import QParams
    from qdialect.plugins.onnx.write.exporter import Exporter


def write_node(exporter: Exporter, op: NodeOp) -> None:
    """The node verbatim: attributes, absent inputs, subgraphs with the names of today."""
    key = exporter.key(op)
    inputs = [_input(exporter, op, v) if v is not None else "" for v in op.node_inputs()]
    renamed = {name: _input(exporter, op, v) for name, v in op.captured().items()}
    names = iter(exporter.output_names(op, key))
    outputs = [exporter.claim(v, next(names)) if v is not None else "" for v in op.node_results()]
    made = exporter.graph.node(op.op_type.data, inputs, outputs, key, op.domain.data)
    for name, attribute in sorted(op.node_attributes.data.items()):
        written = node_attribute(name, attribute, exporter.ctx.blobs)
        for graph in (*written.graphs, *((written.g,) if written.HasField("g") else ())):
            rename(graph, renamed)
            exporter.graph.domains |= domains_in(graph)
        made.attribute.append(written)
    doc = op.attributes.get(DOC)
    if isinstance(doc, StringAttr):
        made.doc_string = doc.data


def _input(exporter: Exporter, op: NodeOp, value: SSAValue) -> str:
    element = element_type(value.type)
    other = is_tensor(value.type) and exporter.code(value) != DATA_TYPES.get(element)
    if other and not op.reads_shape:
        raise exporter.unsupported(
            op, f"({op.op_type.data}) takes {value.type}, but its tensor has other integers"
        )
    return exporter.tensor(value)


def rename(graph: GraphProto, names: dict[str, str]) -> None:
    """Let a subgraph read outer tensors under their new names."""
    changed = {old: new for old, new in names.items() if old != new}
    if not changed:
        return
    inner = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    inner |= {name for node in graph.node for name in node.output}
    outer = {old: new for old, new in changed.items() if old not in inner}
    for node in graph.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for nested in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                rename(nested, outer)
    for result in graph.output:
        result.name = outer.get(result.name, result.name)


# -- casts --------------------------------------------------------------------------------


def write_constant(exporter: Exporter, op: ConstantOp) -> None:
    """Nothing: constants are written when something reads them."""


def write_dcast(exporter: Exporter, op: DCastOp) -> None:
    """DequantizeLinear, or a product with the scales of sums; nothing if an earlier reader of
    its real numbers had it written."""
    if op.result in exporter.tensors:
        return
    quantized = quant_element(op.input.type)
    if quantized is None:
        raise exporter.unsupported(op, f"cannot dequantize {op.input.type}")
    key, qparams = exporter.key(op), quantized.qparams
    name = exporter.claim(op.result, exporter.output_names(op, key)[0])
    params = string_list(op.attributes.get(PARAMS))
    weight = constant_of(op.input) if AT_LOAD in op.attributes else None
    source = exporter.tensor(op.input) if weight is None else exporter.castable(weight)
    if weight is not None:
        write_cast_and_scaled(exporter.graph, source, name, qparams, key, len(shape_of(op.input)))
    elif not write_scaled(exporter, op, source, name, key, params):
        along = along_one(qparams, op.input)
        write_dequantize(exporter.graph, source, name, along, key, exporter.opset, params)
    exporter.dequantized.setdefault((source, qparams), name)


def write_qcast(exporter: Exporter, op: QCastOp) -> None:
    """QuantizeLinear, of a product where the cast multiplies by a reciprocal."""
    if quant_element(op.result.type) is None:
        raise exporter.unsupported(op, f"cannot quantize to {op.result.type}")
    key = exporter.key(op)
    params = string_list(op.attributes.get(PARAMS))
    source = exporter.tensor(op.input)
    exporter.quantize(source, op.result, exporter.output_names(op, key)[0], key, params)


def write_rescale(exporter: Exporter, op: RescaleOp) -> None:
    """DequantizeLinear of the operand, QuantizeLinear of that; where that gives other codes than
    multiplier and shift, or another rounding, a table of all."""
    table, rounding = _all_rescaled(op), None
    if table is not None:
        codes, floats = table
        if (codes != floats).any():
            _look_up(exporter, op, codes)
            return
        rounding = Rounding.HALF_EVEN
    key = exporter.key(op)
    source = exporter.floats(op.input)
    hint = exporter.output_names(op, key)[0]
    exporter.quantize(source, op.result, hint, key, rounding=rounding)


def _all_rescaled(op: RescaleOp) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """What becomes of each code of 8 bits, and what through floats; None where they are too
    many or differ between channels, or where floats are what the op means."""
    import numpy as np

    a, b = op.input_qparams, op.result_qparams
    if op.fixed_point is None and op.rounding in (Rounding.HALF_EVEN, Rounding.RECIPROCAL):
        return None
    if not (a.is_per_tensor and b.is_per_tensor) or a.storage.width not in (4, 8):
        return None
    if b.storage.width not in (8, 16) or (op.fixed_point is None and op.rounding.two_stage):
        return None
    source, target = affine(a), affine(b)
    pair = None if op.fixed_point is None else FixedPoint(*op.fixed_point[0])
    low, high = a.storage.full_range
    codes = np.arange(low, high + 1, dtype=np.int64)
    rescaled = Form(op.rounding, pair).codes(codes, source, target)
    floats = requantized(codes, source, target, Rounding.HALF_EVEN, "f32")
    return rescaled.astype(storage_dtype(b)), floats.astype(storage_dtype(b))


def write_scast(exporter: Exporter, op: SCastOp) -> None:
    """Nothing: the tensor is the same integers."""
    quantized = quant_element(op.result.type)
    code = None if quantized is None else storage_code(quantized.qparams)
    exporter.alias(op.result, op.input, code)
    if code not in (None, exporter.code(op.result)):
        raise exporter.unsupported(op, "reads integers of one signedness as the other")


def write_table(exporter: Exporter, op: TableOp) -> None:
    """GatherElements of the flat tensor: five times as fast as Gather in ONNX Runtime.

    Negative codes count from the end of the table, as ONNX has it.  Nothing gathers codes of
    4 bits: what they stand for is looked up, and quantized.
    """
    entries = constant_of(op.table)
    if entries is None:
        raise exporter.unsupported(op, "is written with a constant table")
    _look_up(exporter, op, constant_array(entries, exporter.ctx.blobs))


def _look_up(exporter: Exporter, op: TableOp | RescaleOp, table: NDArray[Any]) -> None:
    """The entry of each code, the lowest of which has the first."""
    import numpy as np
    from onnx import TensorProto

    element, given = quant_element(op.input.type), quant_element(op.result.type)
    assert element is not None and given is not None
    storage = element.qparams.storage
    if storage.width not in (4, 8, 16) or exporter.opset < 11:
        raise exporter.unsupported(op, "is written as a table of 4, 8 or 16 bit codes")
    key, graph = exporter.key(op), exporter.graph
    rolled = np.roll(table, storage.full_range[0])
    hint = exporter.output_names(op, key)[0]
    if given.qparams.storage.width < 8:
        rolled = _real(rolled, given.qparams)
        result = graph.tensor(f"{hint}_real")
    else:
        result = exporter.claim(op.result, hint)

    def step(op_type: str, suffix: str, *inputs: str, **attributes: Any) -> str:
        made = graph.tensor(f"{result}_{suffix}")
        graph.node(op_type, inputs, [made], f"{key}_{suffix}", **attributes)
        return made

    source, shape = exporter.tensor(op.input), shape_of(op.input)
    if storage.width < 8:
        source = step("Cast", "codes", source, to=TensorProto.INT32)
    flat = source
    if len(shape) != 1:
        flat = step("Reshape", "flat", source, graph.ints(f"{key}_all", [-1]))
    index = step("Cast", "index", flat, to=TensorProto.INT32)
    inputs = [graph.array(f"{key}_table", rolled), index]
    if len(shape) == 1:
        graph.node("GatherElements", inputs, [result], key)
    else:
        looked_up = step("GatherElements", "entries", *inputs)
        if shape.count(DYNAMIC) > 1 or 0 in shape:
            extents = step("Shape", "shape", source)
        else:
            extents = graph.ints(f"{key}_extents", [-1 if n == DYNAMIC else n for n in shape])
        graph.node("Reshape", [looked_up, extents], [result], key)
    if given.qparams.storage.width < 8:
        exporter.quantize(result, op.result, hint, f"{key}_QuantizeLinear")


def _real(codes: NDArray[Any], qparams: QParams) -> NDArray[Any]:
    """What codes narrower than a byte, held in bytes, stand for."""
    import numpy as np

    width, signed = qparams.storage.width, qparams.storage.signed
    wide = codes.astype(np.int64) & ((1 << width) - 1)
    wide = np.where(signed & (wide >> (width - 1) > 0), wide - (1 << width), wide)
    return ((wide - qparams.zero_point) * qparams.scale).astype(np.float32)


def write_conversion(exporter: Exporter, op: UnrealizedConversionCastOp) -> None:
    """Nothing: a signless integer type and ONNX's are the same tensor, whichever that is."""
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        raise exporter.unsupported(op, "is not an ONNX op")
    element = element_type(op.outputs[0].type)
    unsigned = str(element).startswith("ui")
    exporter.alias(op.outputs[0], op.inputs[0], DATA_TYPES[element] if unsigned else None)
