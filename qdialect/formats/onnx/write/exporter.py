"""Writing a module as an ONNX model.

One walk over the function in program order.  Every SSA value has the name of an
ONNX tensor: floats and integers as they are, a quantized value as its stored
integers.  The dequantized form of a quantized value is written once, where it is
first needed, and shared.  Constants become initializers when they are first read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.context import QContext
from qdialect.dialects.onnx import (
    ARG_NAME,
    DATA_TYPES,
    DIMS,
    DOC,
    GRAPH_NAME,
    OUTPUTS,
    PARAMS,
    RESULT_NAMES,
    derived_outputs,
    integer_width,
    package,
    string_list,
)
from qdialect.errors import InputError, QError, UnsupportedError, UsageError
from qdialect.formats.onnx.write.accumulators import write_scaled
from qdialect.formats.onnx.write.graph import GraphWriter, bytes_of
from qdialect.formats.onnx.write.header import ModelHeader, value_info
from qdialect.formats.onnx.write.inner_graphs import inner_names
from qdialect.formats.onnx.write.kernels import (
    NEWEST,
    Numerics,
    Version,
    installed_runtime,
    parse_version,
)
from qdialect.formats.onnx.write.quantization import (
    packed,
    storage_code,
    write_dequantize,
    write_quantize,
)
from qdialect.formats.onnx.write.shields import shield
from qdialect.formats.onnx.write.table import RENAMES, may_defer, write
from qdialect.formats.onnx.write.written import Written
from qdialect.ops import ConstantOp, constant_array, constant_of, keys_of
from qdialect.ops.key_metadata import KeyTable
from qdialect.qparams.parameters import QParams
from qdialect.quant import DCastOp, element_type, quant_element
from qdialect.verify.verifier import op_where

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

Form = Literal["qdq", "qoperator"]


def export_model(
    module: ModuleOp,
    ctx: QContext,
    form: Form = "qdq",
    opset: int | None = None,
    *,
    numerics: Numerics = "ties",
    runtime: str | None = None,
) -> ModelProto:
    """The module's function as an ONNX model; `write_model` does not copy its weights."""
    return write_model(module, ctx, form, opset, numerics=numerics, runtime=runtime).whole()


def write_model(
    module: ModuleOp,
    ctx: QContext,
    form: Form = "qdq",
    opset: int | None = None,
    *,
    numerics: Numerics = "ties",
    runtime: str | None = None,
) -> Written:
    """The module's function as an ONNX model, with large weights where they are.

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
        exporter = Exporter(function, ctx, form, header.opset, numerics, version)
        model = header.model(exporter.run(), exporter.keys, function)
        return Written(model, exporter.graph.weights)
    except QError as error:
        error.where = error.where or op_where(module)
        raise


def _only_function(module: ModuleOp) -> FuncOp:
    functions = [op for op in module.body.ops if isinstance(op, FuncOp)]
    bodies = [f for f in functions if not f.is_declaration]
    if len(functions) != 1 or len(bodies) != 1:
        held = f"{len(functions)}" if len(bodies) == len(functions) else "one without a body"
        raise InputError(
            f"an ONNX model is one function, but the module has {held}", code="not-a-model"
        )
    if len(bodies[0].body.blocks) != 1:
        raise UnsupportedError(
            f"function '{bodies[0].sym_name.data}' has several blocks", where=op_where(bodies[0])
        )
    return bodies[0]


@dataclass
class Exporter:
    """The state of one export; writers of ops use its methods."""

    function: FuncOp
    ctx: QContext
    form: Form
    opset: int
    numerics: Numerics
    runtime: Version
    graph: GraphWriter = field(init=False)
    tensors: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    #: ops left out because a reader has another form of them; written if one has not
    deferred: set[Operation] = field(default_factory=set[Operation])
    #: codes, scale and zero point of tensors that nodes quantize at run time
    quantized_at_run_time: dict[str, tuple[str, str, str]] = field(
        default_factory=dict[str, "tuple[str, str, str]"]
    )
    #: what ops are called beyond the names of their nodes
    keys: KeyTable = field(default_factory=KeyTable)
    _dequantized: dict[tuple[str, QParams], str] = field(
        default_factory=dict[tuple[str, QParams], str]
    )
    _reserved: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    _codes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    _fresh: Counter[str] = field(default_factory=Counter[str])

    # -- names ------------------------------------------------------------------------

    def key(self, op: Operation) -> str:
        """The name of the op's node: its first key, or its kind and a number."""
        keys = keys_of(op)
        if keys:
            self.keys.note_op(op)
            return keys[0]
        kind = op.name.rpartition(".")[2]
        self._fresh[kind] += 1
        return f"{kind}_{self._fresh[kind]}"

    def output_names(self, op: Operation, key: str) -> list[str]:
        """The tensor names of the op's results, as the model it came from had them."""
        names = string_list(op.attributes.get(OUTPUTS))
        derived = derived_outputs(key, len(op.results))
        return names if len(names) == len(derived) else derived

    def claim(self, value: SSAValue, wanted: str) -> str:
        """The tensor name for `value`, which is written under it now."""
        name = self._reserved.get(value) or self.graph.tensor(wanted)
        self.tensors[value] = name
        return name

    def alias(self, value: SSAValue, source: SSAValue, code: int | None = None) -> None:
        """`value` is the tensor of `source`, under another type.

        A constant is written again where `code` is not the ONNX type it has: signless
        integers are signed and unsigned ones.
        """
        constant = constant_of(source)
        if constant is not None and code not in (None, self.code(source)):
            self._codes[value] = code
            self.tensors[value] = self.constant(constant, code=code)
            return
        self.tensors[value] = self.tensor(source)
        self._codes[value] = self.code(source)

    # -- operands -----------------------------------------------------------------------

    def tensor(self, value: SSAValue) -> str:
        """The tensor that holds `value`: stored integers if it is quantized."""
        if value not in self.tensors:
            owner = value.owner
            if isinstance(owner, ConstantOp):
                self.tensors[value] = self.constant(owner)
            elif isinstance(owner, Operation) and owner in self.deferred:
                self.deferred.remove(owner)
                write(self, owner)
            else:
                raise InputError("a value is used before it is computed", code="bad-ssa")
        return self.tensors[value]

    def code(self, value: SSAValue) -> int:
        """The `TensorProto.DataType` of the tensor that holds `value`."""
        if value in self._codes:
            return self._codes[value]
        quantized = quant_element(value.type)
        if quantized is not None:
            return storage_code(quantized.qparams)
        return DATA_TYPES[element_type(value.type)]

    def constant(self, op: ConstantOp, *, transposed: bool = False, code: int | None = None) -> str:
        """A constant as an initializer of its ONNX type, or of another with the same bits,
        under its key; the tensor name."""
        array: NDArray[Any] = constant_array(op, self.ctx.blobs)
        if array.dtype.kind == "b":
            # xDSL reads `true` as a byte of ones.
            array = array.view("u1") != 0
        array = array.T if transposed else array
        code = self.code(op.result) if code is None else code
        quantized = quant_element(op.result.type)
        width = integer_width(element_type(op.result.type)) or 8
        width = quantized.qparams.storage.width if quantized is not None else width
        raw = packed(array, width) if 1 < width < 8 else bytes_of(array)
        return self.graph.initializer(self.key(op), code, array.shape, raw)

    def floats(self, value: SSAValue) -> str:
        """The tensor of a value's real numbers: dequantized if it is quantized."""
        quantized = quant_element(value.type)
        if quantized is None:
            return self.tensor(value)
        place = (self.tensor(value), quantized.qparams)
        if place not in self._dequantized:
            readers = (use.operation for use in value.uses)
            op = next((reader for reader in readers if isinstance(reader, DCastOp)), None)
            if op is not None and op.result not in self.tensors:
                self.dequantize(op)
            else:
                name = self.graph.tensor(f"{place[0]}_dequantized")
                node = f"{place[0]}_DequantizeLinear"
                write_dequantize(self.graph, place[0], name, quantized.qparams, node, self.opset)
                self._dequantized[place] = name
        return self._dequantized[place]

    def dequantize(self, op: DCastOp) -> None:
        """Write a `quant.dcast`, unless an earlier need for it already did."""
        if op.result in self.tensors:
            return
        quantized = quant_element(op.input.type)
        if quantized is None:
            raise self.unsupported(op, f"cannot dequantize {op.input.type}")
        key = self.key(op)
        name = self.claim(op.result, self.output_names(op, key)[0])
        params = string_list(op.attributes.get(PARAMS))
        source = self.tensor(op.input)
        if not write_scaled(self, op, source, name, key, params):
            write_dequantize(self.graph, source, name, quantized.qparams, key, self.opset, params)
        self._dequantized.setdefault((source, quantized.qparams), name)

    def quantize(
        self, source: str, value: SSAValue, wanted: str, node: str, params: Sequence[str] = ()
    ) -> None:
        """Write the quantized `value` from the tensor of its real numbers."""
        quantized = quant_element(value.type)
        assert quantized is not None
        output = self.claim(value, wanted)
        write_quantize(self.graph, source, output, quantized.qparams, node, self.opset, params)

    # -- the walk -----------------------------------------------------------------------

    def run(self) -> Any:
        """The graph."""
        names = self._input_names()
        terminator = cast("ReturnOp", self.function.body.block.last_op)
        results = string_list(self.function.attributes.get(RESULT_NAMES))
        if len(results) != len(terminator.operands):
            results = [f"result_{i}" for i in range(len(terminator.operands))]
        self.graph = GraphWriter([*names, *results, *inner_names(self.function, self.ctx.blobs)])
        self._reserve(terminator, names, results)
        block = self.function.body.block
        self.tensors.update(zip(block.args, names, strict=True))
        for op in block.ops:
            if op is terminator:
                break
            if may_defer(self, op):
                self.deferred.add(op)
            else:
                write(self, op)
        for value, name in zip(terminator.operands, results, strict=True):
            if self.tensor(value) != name:
                self.graph.node("Identity", [self.tensor(value)], [name], f"{name}_copy")
        shield(self.graph, self.opset)
        return self._graph(names, results, terminator)

    def _input_names(self) -> list[str]:
        attributes = self.function.arg_attrs
        entries = list(attributes.data) if attributes is not None else []
        names: list[str] = []
        for index in range(len(self.function.body.block.args)):
            given = entries[index].data.get(ARG_NAME) if index < len(entries) else None
            names.append(given.data if isinstance(given, StringAttr) else f"arg{index}")
        return names

    def _reserve(self, terminator: ReturnOp, names: list[str], results: list[str]) -> None:
        """Results that an op computes are written under the graph output's name."""
        given = dict(zip(names, self.function.body.block.args, strict=False))
        own = [
            name
            for value, name in zip(terminator.operands, results, strict=True)
            if given.get(name) is not value  # an input that is given back under its name
        ]
        counts = Counter([*names, *own])
        duplicates = [name for name, count in counts.items() if count > 1]
        if duplicates or len(set(results)) != len(results):
            twice = [name for name, count in Counter(results).items() if count > 1]
            raise InputError(f"two graph inputs or outputs are named '{(duplicates + twice)[0]}'")
        for value, name in zip(terminator.operands, results, strict=True):
            owner = value.owner
            if isinstance(owner, Operation) and owner.name not in RENAMES:
                self._reserved.setdefault(value, name)

    def _graph(self, names: list[str], results: list[str], terminator: ReturnOp) -> Any:
        helper = package("onnx.helper")
        attributes = self.function.arg_attrs
        entries = list(attributes.data) if attributes is not None else []
        given = self.function.attributes.get(DIMS)
        dims = list(cast("ArrayAttr[Any]", given).data) if isinstance(given, ArrayAttr) else []
        inputs = [
            value_info(name, value.type, self.code_or_none(value), _at(entries, i, DIMS))
            for i, (name, value) in enumerate(
                zip(names, self.function.body.block.args, strict=True)
            )
        ]
        outputs = [
            value_info(
                name, value.type, self.code_or_none(value), dims[i] if i < len(dims) else None
            )
            for i, (name, value) in enumerate(zip(results, terminator.operands, strict=True))
        ]
        name = self.function.attributes.get(GRAPH_NAME)
        doc = self.function.attributes.get(DOC)
        graph = helper.make_graph(
            self.graph.nodes,
            name.data if isinstance(name, StringAttr) else self.function.sym_name.data,
            inputs,
            outputs,
            list(self.graph.initializers.values()),
            doc.data if isinstance(doc, StringAttr) else None,
        )
        return graph, self.graph.domains

    def code_or_none(self, value: SSAValue) -> int | None:
        """The element type of a tensor value; None for other values."""
        if not isinstance(value.type, TensorType) and element_type(value.type) == value.type:
            return None
        return self.code(value)

    def unsupported(self, op: Operation, reason: str) -> UnsupportedError:
        """An error at `op`."""
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        return UnsupportedError(f"'{name}' {reason}", where=op_where(op))


def _at(entries: Sequence[DictionaryAttr], index: int, name: str) -> Any:
    return entries[index].data.get(name) if index < len(entries) else None
