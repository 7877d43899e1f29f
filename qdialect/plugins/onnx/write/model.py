"""Writing a module as an ONNX model.

One walk over the function in program order: `table.py` says how each op is written, with the
names, operands and constants that `exporter.py` has.  An op that its readers have another form
of is written only when something asks for its tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.errors import InputError, QError, UnsupportedError, UsageError
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import ARG_NAME, DIMS, GRAPH_NAME, RESULT_NAMES
from qdialect.ir.ops.locations import op_where
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import DOC
from qdialect.plugins.onnx.write.exporter import Exporter, Form
from qdialect.plugins.onnx.write.graph import GraphWriter
from qdialect.plugins.onnx.write.header import ModelHeader, value_info
from qdialect.plugins.onnx.write.inner_graphs import inner_names
from qdialect.plugins.onnx.write.kernels import (
    NEWEST,
    Numerics,
    installed_runtime,
    parse_version,
)
from qdialect.plugins.onnx.write.shields import shield
from qdialect.plugins.onnx.write.table import RENAMES, may_defer, write
from qdialect.plugins.onnx.write.written import Written


def write_model(
    module: ModuleOp,
    ctx: QContext,
    form: Form = "qdq",
    opset: int | None = None,
    *,
    numerics: Numerics = "ties",
    runtime: str | None = None,
) -> Written:
    """The module's function as an ONNX model, with large weights where they are (`whole` puts
    them into the message).

    `form` "qdq" writes every quantized op as dequantize, float op, quantize (movement
    ops directly on integers where the runtime has them); "qoperator" uses the integer
    kernels that keep to `numerics` (see `kernels.py`).  `opset` is kept from the
    imported model, or raised where needed, unless given.  `runtime` is the oldest
    version of ONNX Runtime whose kernels must take the model ("1.23"; the installed
    one unless given, the newest known if none is).  UnsupportedError for what ONNX
    cannot express, InputError for a module without a function or with several.
    """
    if form not in ("qdq", "qoperator"):
        raise UsageError(f"no ONNX form '{form}' (qdq, qoperator)")
    try:
        function = _only_function(module)
        header = ModelHeader.of(module, function, ctx.blobs, opset)
        version = parse_version(runtime) if runtime else installed_runtime() or NEWEST
        names = [*_input_names(function), *_result_names(function)]
        graph = GraphWriter([*names, *inner_names(function, ctx.blobs)])
        reserved = _reserved(function)
        exporter = Exporter(ctx, form, header.opset, numerics, version, graph, write, reserved)
        model = header.model(write_graph(exporter, function), exporter.keys, function)
        return Written(model, exporter.graph.weights)
    except QError as error:
        error.where = error.where or op_where(module)
        raise


def _only_function(module: ModuleOp) -> FuncOp:
    functions = [op for op in module.body.ops if isinstance(op, FuncOp)]
    bodies = [f for f in functions if not f.is_declaration]
    if len(functions) != 1 or len(bodies) != 1:
        found = f"{len(functions)}" if len(bodies) == len(functions) else "one without a body"
        raise InputError(
            f"an ONNX model is one function, but the module has {found}", code="not-a-model"
        )
    if len(bodies[0].body.blocks) != 1:
        raise UnsupportedError(
            f"function '{bodies[0].sym_name.data}' has several blocks", where=op_where(bodies[0])
        )
    return bodies[0]


# -- the walk -----------------------------------------------------------------------------


def write_graph(exporter: Exporter, function: FuncOp) -> Any:
    """The function as a graph, and the domains of its nodes."""
    names, results = _input_names(function), _result_names(function)
    terminator = _terminator(function)
    block = function.body.block
    exporter.tensors.update(zip(block.args, names, strict=True))
    for op in block.ops:
        if op is terminator:
            break
        if may_defer(exporter, op):
            exporter.deferred.add(op)
        else:
            write(exporter, op)
    for value, name in zip(terminator.operands, results, strict=True):
        if exporter.tensor(value) != name:
            exporter.graph.node("Identity", [exporter.tensor(value)], [name], f"{name}_copy")
    shield(exporter.graph, exporter.opset)
    return _graph(exporter, function), exporter.graph.domains


def _terminator(function: FuncOp) -> ReturnOp:
    return cast("ReturnOp", function.body.block.last_op)


def _input_names(function: FuncOp) -> list[str]:
    attributes = function.arg_attrs
    entries = list(attributes.data) if attributes is not None else []
    names: list[str] = []
    for index in range(len(function.body.block.args)):
        name = _at(entries, index, ARG_NAME)
        names.append(name.data if isinstance(name, StringAttr) else f"arg{index}")
    return names


def _result_names(function: FuncOp) -> list[str]:
    results = string_list(function.attributes.get(RESULT_NAMES))
    count = len(_terminator(function).operands)
    return results if len(results) == count else [f"result_{i}" for i in range(count)]


def _reserved(function: FuncOp) -> dict[SSAValue, str]:
    """Results that an op computes, and the graph outputs' names that they are written under."""
    names, results = _input_names(function), _result_names(function)
    operands = _terminator(function).operands
    arguments = dict(zip(names, function.body.block.args, strict=False))
    computed = [
        name
        for value, name in zip(operands, results, strict=True)
        if arguments.get(name) is not value  # an input that is given back under its name
    ]
    counts = Counter([*names, *computed])
    duplicates = [name for name, count in counts.items() if count > 1]
    if duplicates or len(set(results)) != len(results):
        twice = [name for name, count in Counter(results).items() if count > 1]
        raise InputError(f"two graph inputs or outputs are named '{(duplicates + twice)[0]}'")
    reserved: dict[SSAValue, str] = {}
    for value, name in zip(operands, results, strict=True):
        owner = value.owner
        if isinstance(owner, Operation) and owner.name not in RENAMES:
            reserved.setdefault(value, name)
    return reserved


def _graph(exporter: Exporter, function: FuncOp) -> Any:
    arguments, results = function.body.block.args, _terminator(function).operands
    names, result_names = _input_names(function), _result_names(function)
    attributes = function.arg_attrs
    entries = list(attributes.data) if attributes is not None else []
    given = function.attributes.get(DIMS)
    dims = list(cast("ArrayAttr[Any]", given).data) if isinstance(given, ArrayAttr) else []
    inputs = [
        value_info(name, value.type, exporter.code_or_none(value), _at(entries, i, DIMS))
        for i, (name, value) in enumerate(zip(names, arguments, strict=True))
    ]
    outputs = [
        value_info(
            name, value.type, exporter.code_or_none(value), dims[i] if i < len(dims) else None
        )
        for i, (name, value) in enumerate(zip(result_names, results, strict=True))
    ]
    name = function.attributes.get(GRAPH_NAME)
    doc = function.attributes.get(DOC)
    return package("onnx.helper").make_graph(
        exporter.graph.nodes,
        name.data if isinstance(name, StringAttr) else function.sym_name.data,
        inputs,
        outputs,
        list(exporter.graph.initializers.values()),
        doc.data if isinstance(doc, StringAttr) else None,
    )


def _at(entries: Sequence[DictionaryAttr], index: int, name: str) -> Any:
    return entries[index].data.get(name) if index < len(entries) else None
