"""Building a module from an ONNX model: one function, one op per node, names as attributes.

The walk takes the nodes in file order; `table.py` says which import function builds the ops of
a node, with what `importer.py` has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import InputError, Where
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string, strings
from qdialect.ir.dialects.interface import (
    ARG_NAME,
    DIMS,
    GRAPH_NAME,
    OUTPUTS,
    RESULT_NAMES,
    derived_outputs,
)
from qdialect.ir.ops import KEY, ConstantOp
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.key_metadata import IDENTITY, KEYS
from qdialect.ir.ops.keys import MODEL as IDENTITY_KEY
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import ARITHMETIC_KEY, IN_FLOATS, UniformType, element_type, with_element
from qdialect.ir.quant.elements import is_tensor
from qdialect.ir.quant.interface_metadata import QPARAMS
from qdialect.packages import package
from qdialect.plugins.common.extents import MOST, Numbers
from qdialect.plugins.onnx.dialect import (
    ALIASES,
    DATA_TYPES,
    DOC,
    EXTERNAL_DATA,
    MODEL,
    PARAMS,
    NodeOp,
)
from qdialect.plugins.onnx.read.compute import Rule
from qdialect.plugins.onnx.read.importer import Importer
from qdialect.plugins.onnx.read.load import LoadedModel, label, load_model, read_identity
from qdialect.plugins.onnx.read.node import Node, is_stateful, stable_keys, trimmed
from qdialect.plugins.onnx.read.quantized_inputs import quantized_constants, quantized_inputs, suits
from qdialect.plugins.onnx.read.quark import TRANSLATED, translation
from qdialect.plugins.onnx.read.quark_ops import DEQUANTIZE, QUANTIZE
from qdialect.plugins.onnx.read.scale_places import correction, placed
from qdialect.plugins.onnx.read.shape_values import FUNCTIONS
from qdialect.plugins.onnx.read.subgraphs import captured_names, subgraphs
from qdialect.plugins.onnx.read.table import RULES
from qdialect.plugins.onnx.read.types import UNKNOWN, dim_names, extents, is_open, met, value_type

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

    from qdialect.plugins.onnx.read.graph_tensors import GraphTensors


def import_model(
    source: str | Path | bytes | ModelProto,
    ctx: QContext,
    dims: Mapping[str, int] | None = None,
    *,
    keep: bool = False,
) -> ModuleOp:
    """Read an ONNX model as a module with one function; `dims` are numbers for symbolic extents.

    What we know becomes `nn` and `quant` ops, every other node an `onnx.node`; with `keep` all do.
    Weights go to `ctx.blobs`.  Raises InputError (file and node) for a model that
    is broken, QError (`missing-package`) without the `onnx` package.
    """
    try:
        loaded = load_model(source, dims)
        check_operand_types(loaded)
        return _Walk(ctx, loaded, keep).run()
    except UnicodeDecodeError:
        # Raised by protobuf when a text field is read, and by the ONNX checker.
        raise InputError(
            "a name or text in the model is not UTF-8",
            where=Where(file=str(source) if isinstance(source, str | Path) else None),
            code="invalid-onnx",
        ) from None


class _Walk:
    """The walk over the nodes of one model."""

    def __init__(self, ctx: QContext, loaded: LoadedModel, keep: bool) -> None:
        self._keep = keep
        self._imp = Importer(ctx, loaded)
        self._arithmetic = ShapeArithmetic(self._imp)
        self._parameters = KnownParameters(self._imp)
        #: casts that are read as the shapes of their scales say
        self._placed: list[str] = []
        #: how many casts of others are read as those of ONNX
        self._translated = 0
        #: other names of the results of ops
        self._aliases: dict[Operation, list[str]] = {}

    def run(self) -> ModuleOp:
        """The module; InputError for a graph input without a type, a sparse initializer, or an
        output of another element type than it declares."""
        imp = self._imp
        graph = imp.loaded.model.graph
        arguments = [v for v in graph.input if v.name not in imp.statics]
        quantized = quantized_inputs(imp)
        kinds: list[Attribute] = []
        for info in arguments:
            kind = value_type(info.type)
            if kind == UNKNOWN:
                raise InputError(
                    f"graph input '{info.name}' has no type",
                    where=imp.loaded.where(),
                    code="invalid-onnx",
                )
            if info.name in quantized:
                kind = with_element(kind, quantized[info.name])
            kinds.append(kind)
        imp.block = Block(arg_types=kinds)
        imp.values.update((v.name, a) for v, a in zip(arguments, imp.block.args, strict=True))
        imp.symbols.name(None, [v.name for v in arguments], imp.block.args)
        for name, element in quantized_constants(imp).items():
            imp.values[name] = imp.constant(name, element)
        for tensor in graph.sparse_initializer:
            raise InputError(
                f"initializer '{tensor.values.name}' is sparse, which is not supported",
                where=imp.loaded.where(),
                code="unsupported",
            )
        for index, (proto, key) in enumerate(zip(graph.node, stable_keys(graph.node), strict=True)):
            self._import_node(trimmed(proto, key, index, imp.loaded.where(key)))
        for op, names in self._aliases.items():
            op.attributes[ALIASES] = strings(names)
        imp.ctx.corrections += [*correction(self._placed), *translation(self._translated)]
        results = [self._output(info) for info in graph.output]
        self._drop_replaced(results)
        imp.block.add_op(ReturnOp(*results))
        self._arithmetic.drop_unread()
        return self._module([v.type for v in arguments], [v.name for v in arguments], results)

    def _output(self, info: ValueInfoProto) -> SSAValue:
        """The value of a graph output, which must have the element type it declares."""
        imp = self._imp
        value = imp.value(info.name)
        declared, found = (element_type(t) for t in (value_type(info.type), value.type))
        if isinstance(found, UniformType):
            storage = found.qparams.storage
            sign = Signedness.SIGNLESS if storage.signed else Signedness.UNSIGNED
            found = IntegerType(storage.width, sign) if not storage.is_float else declared
        stated = imp.interface_types.get(info.name)
        if stated is not None and declared == found == element_type(value.type):
            return imp.quantized(value, stated) if suits(stated, value.type) else value
        known = declared in DATA_TYPES and found in DATA_TYPES
        if known and is_tensor(value.type) and declared != found:
            raise InputError(
                f"graph output '{info.name}' is declared {declared}, but is computed as {found}",
                where=imp.loaded.where(),
                code="invalid-onnx",
            )
        return value

    def _drop_replaced(self, results: Sequence[SSAValue]) -> None:
        """Erase what is only read in another form."""
        returned = set(results)
        for op in self._imp.replaced:
            if op.parent is not None and op.results[0].first_use is None:
                if op.results[0] in returned:
                    continue
                op.detach()
                op.erase()

    def _import_node(self, node: Node) -> None:
        """Build the ops of a node by its import function; an `onnx.node` where that has none."""
        imp = self._imp
        imp.begin(node)
        self._parameters.find(node)
        meant = node if self._keep else placed(imp, node, imp.type_of(node.input(0)))
        if meant is not node:
            self._placed.append(node.key)
            node = meant
        rule = RULES.get((node.domain, node.op_type))
        try:
            results = None if self._keep else self._arithmetic.result(node)
            if results is None and not self._keep:
                results = by_rule(imp, rule, node) if rule else None
                self._translated += rule in TRANSLATED and results is not None
            if results is None:
                results = imp.keep(node)
        except VerifyException as error:
            if not any(map(_is_below_a_node, (imp.values.get(name) for name in node.inputs))):
                raise InputError(str(error), where=node.where, code="invalid-node") from None
            results = imp.keep(node)  # its extents are those that ONNX infers for that node
        location = imp.location(node.key)
        for op in imp.emitted:
            op.location = location
        present = [name for name in node.outputs if name]
        imp.values.update(zip(present, results, strict=False))
        imp.symbols.name(node, present, results)
        if any(isinstance(v.owner, NodeOp) and is_open(v.type) for v in results):
            self._complete(node, present, results)
        self._arithmetic.follow(node, imp.emitted)
        if results:
            self._name(node, results, present)

    def _complete(self, node: Node, outputs: list[str], results: Sequence[SSAValue]) -> None:
        """Fill in extents of the results of a kept node that only constants computed by the model,
        or ops behind others' ops, tell."""
        symbols, found = self._imp.symbols, types_alone(self._imp, node)
        for name, value in zip(outputs, results, strict=True):
            kind = met(value.type, found.get(name, UNKNOWN))
            extents = symbols.extents(name) if is_open(kind) else None
            if extents is not None:
                numbers = [DYNAMIC if e.number is None else max(e.number, DYNAMIC) for e in extents]
                kind = met(kind, ranked(element_type(kind), numbers))
            value._type = kind  # pyright: ignore[reportPrivateUsage]

    def _name(self, node: Node, results: Sequence[SSAValue], outputs: list[str]) -> None:
        owner = results[0].owner
        if not isinstance(owner, Operation):
            return
        if owner not in self._imp.emitted:
            self._aliases.setdefault(owner, []).extend(outputs)
            return
        if len(owner.results) > len(outputs):
            # Nothing takes the others: they have the names that are derived.
            derived = derived_outputs(node.key, len(owner.results))
            names = dict(zip(results, outputs, strict=False))
            outputs = [names.get(r, name) for r, name in zip(owner.results, derived, strict=True)]
        owner.attributes[KEY] = string(node.key)
        self._imp.keys.name(owner)
        operands = len(owner.operands)
        named = node.names_inputs and not isinstance(owner, NodeOp)
        if named and len(node.inputs) > operands:
            # A computed input has a name of its own.
            names = [name if name in self._imp.statics else "" for name in node.inputs[operands:]]
            owner.attributes[PARAMS] = strings(names)
        if outputs != derived_outputs(node.key, len(outputs)):
            owner.attributes[OUTPUTS] = strings(outputs)
        if node.proto.doc_string:
            owner.attributes[DOC] = StringAttr(node.proto.doc_string)

    # -- module and function --------------------------------------------------------

    def _module(
        self, types: list[TypeProto], names: list[str], results: Sequence[SSAValue]
    ) -> ModuleOp:
        block, loaded = self._imp.block, self._imp.loaded
        model = loaded.model
        arguments: list[DictionaryAttr] = []
        for name, proto in zip(names, types, strict=True):
            entry: dict[str, Attribute] = {ARG_NAME: StringAttr(name)}
            dims = dim_names(proto)
            if dims is not None:
                entry[DIMS] = dims
            arguments.append(DictionaryAttr(entry))
        function = FuncOp(
            symbol(model.graph.name),
            ([a.type for a in block.args], [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr(arguments),
        )
        function.attributes[RESULT_NAMES] = strings([v.name for v in model.graph.output])
        function.attributes[GRAPH_NAME] = StringAttr(model.graph.name)
        if model.graph.doc_string:
            function.attributes[DOC] = StringAttr(model.graph.doc_string)
        result_dims = [
            dim_names(v.type, always=not isinstance(r.type, TensorType))
            for v, r in zip(model.graph.output, results, strict=True)
        ]
        if any(dims is not None for dims in result_dims):
            function.attributes[DIMS] = ArrayAttr(dims or ArrayAttr(()) for dims in result_dims)
        module = ModuleOp([function], {MODEL: metadata(loaded), ARITHMETIC_KEY: IN_FLOATS})
        if (identity := read_identity(loaded)) is not None:
            module.attributes[IDENTITY_KEY] = identity
        if loaded.file:
            file = StringAttr(loaded.file)
            module.location = FileLineColLoc(file, IntAttr(0), IntAttr(0))
        return module


def _is_below_a_node(value: SSAValue | None) -> bool:
    seen: set[SSAValue] = set()
    pending = [] if value is None else [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, NodeOp):
            return True
        new = owner.operands if isinstance(owner, Operation) else ()
        pending += [v for v in new if v not in seen]
        seen.update(new)
    return False


# Element types that quantization nodes are given, against what their schema takes.
#
# Neither the ONNX checker nor shape inference looks at them. Quantizers write such files
# (codes of 16 bits before opset 21, zero points of type f32), and no runtime loads one.

_CHECKED = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    }
)


_EARLY = frozenset({"int2", "uint2"})
"""Types that the tests of onnx itself use in models of an opset before the one that has them."""


def check_operand_types(loaded: LoadedModel) -> None:
    """InputError for the first such node with an operand of a type it does not take."""
    nodes = [n for n in loaded.model.graph.node if n.op_type in _CHECKED and _is_standard(n.domain)]
    if not nodes:
        return
    entries = loaded.model.opset_import
    version = next((entry.version for entry in entries if _is_standard(entry.domain)), 1)
    found = {name: kind.tensor_type.elem_type for name, kind in loaded.types.items()}
    found |= {tensor.name: tensor.data_type for tensor in loaded.model.graph.initializer}
    for node in nodes:
        reason = _wrong(node, version, found)
        if reason is not None:
            raise InputError(reason, where=loaded.where(label(node)), code="invalid-node")


def _is_standard(domain: str) -> bool:
    return domain in ("", "ai.onnx")


def _wrong(node: NodeProto, version: int, found: dict[str, int]) -> str | None:
    defs, names = package("onnx.defs"), package("onnx").TensorProto.DataType
    if not defs.has(node.op_type, version, ""):
        return None
    ports: list[Any] = list(defs.get_schema(node.op_type, version, "").inputs)
    for name, port in zip(node.input, ports, strict=False):
        given = found.get(name, 0)
        if not name or given not in names.values() or given == 0:
            continue
        kind = str(names.Name(given)).lower()
        if f"tensor({kind})" not in port.types and kind not in _EARLY:
            return (
                f"{port.name} '{name}' is {kind}, which {node.op_type} of opset {version} "
                "does not take"
            )
    return None


# Scales and zero points that nodes compute from constants alone: they are known at import.
#
#     sc = Cast(s: f16[32])                    DequantizeLinear(q, sc)
#     sc = DequantizeLinear(t: f8[32,4], u)    DequantizeLinear<block_size=16>(w, sc)
#
# The nodes are run on their own, as the runtime runs them.  What reads the input of the model, or
# makes large tensors, stays computed.

_CASTS = (
    QUANTIZE
    | DEQUANTIZE
    | {
        (domain, f"{kind}Linear")
        for domain in ("", "com.microsoft")
        for kind in ("Quantize", "Dequantize")
    }
    | {("com.microsoft", kind) for kind in ("MatMulNBits", "MatMulBnb4", "GatherBlockQuantized")}
)
_MOST_NODES = 16
_MOST_ELEMENTS = 1 << 22


class KnownParameters:
    """The parameters of the casts of one graph."""

    def __init__(self, tensors: GraphTensors) -> None:
        self._tensors = tensors

    def find(self, node: Node) -> None:
        """Add to the constants what a cast has for parameters, if constants make it."""
        if (node.domain, node.op_type) not in _CASTS:
            return
        statics = self._tensors.statics
        for name in node.inputs[1:]:
            if name and name not in statics and name in self._makers:
                found = self._computed(name)
                if found is not None:
                    statics[name] = found

    @cached_property
    def _makers(self) -> dict[str, NodeProto]:
        graph = self._tensors.loaded.model.graph
        return {name: node for node in graph.node for name in node.output if name}

    def _computed(self, name: str) -> TensorProto | None:
        nodes, constants = list["NodeProto"](), dict[str, "TensorProto"]()
        if not self._gather(name, nodes, constants):
            return None
        onnx, loaded = package("onnx"), self._tensors.loaded
        graph = onnx.GraphProto(name="parameters", node=nodes)
        for key, tensor in constants.items():
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = key
        graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(ir_version=loaded.model.ir_version, graph=graph)
        model.opset_import.extend(loaded.model.opset_import)
        found = answers(model, {})
        if found is None or not hasattr(found[0], "dtype") or found[0].dtype.isbuiltin != 1:
            return None  # it does not run, or is of a type that numpy lacks
        return package("onnx.numpy_helper").from_array(found[0], name)

    def _gather(self, name: str, nodes: list[NodeProto], constants: dict[str, TensorProto]) -> bool:
        """Collect what computes a tensor, in order; False if that is not constants alone."""
        statics = self._tensors.statics
        if name in statics:
            tensor = statics[name]
            constants[name] = tensor
            external = tensor.data_location == package("onnx").TensorProto.EXTERNAL
            return not external and prod(tensor.dims) <= _MOST_ELEMENTS
        node = self._makers.get(name)
        if node is None or is_stateful(node) or subgraphs(node) or len(nodes) >= _MOST_NODES:
            return False
        if any(other is node for other in nodes):
            return True
        if not all(self._gather(read, nodes, constants) for read in node.input if read):
            return False
        nodes.append(node)
        return True


# Integer nodes that compute shapes: constants where they are known, one where two are equal on
# every run, and nothing where nobody reads them any more.
#
#     val_1 = Shape(ids, start=1, end=2)
#     val_46 = Slice(Shape(q), [-2], [-1])     // q is batch x 4 x sequence x 8: val_46 is val_1

_DTYPES: dict[Attribute, Any] = {i1: np.bool_, i32: np.int32, i64: np.int64}


class ShapeArithmetic:
    """The integer nodes of one import that compute shapes."""

    def __init__(self, imp: Importer) -> None:
        self._imp = imp
        self._same: dict[tuple[Any, ...], str] = {}
        self._made: dict[Operation, Node] = {}
        self._followed: set[int] = set()

    def result(self, node: Node) -> list[SSAValue] | None:
        """Nothing, where a node of shape arithmetic need not compute what is known or there."""
        function = FUNCTIONS.get(node.op_type) if not node.domain else None
        if function is None or len(node.outputs) != 1:
            return None
        name = node.output(0)
        kind = value_type(self._imp.loaded.types.get(name))
        element = (
            cast("TensorType[Attribute]", kind).element_type
            if isinstance(kind, TensorType)
            else None
        )
        if element not in _DTYPES:
            return None
        try:
            found = function(self._imp.symbols, node)
        except (ValueError, IndexError):  # the node is broken, which its own rule says
            return None
        if found is None or found.size > MOST:
            return None
        self._imp.symbols.note(name, found)
        self._followed.add(node.index)
        array = self._constant(name, _DTYPES[element])
        if array is not None:
            self._imp.statics[name] = package("onnx.numpy_helper").from_array(array, name)
            return []
        first = self._same.setdefault(_key(found, element), name)
        if first == name:
            return None
        self._imp.values[name] = self._imp.value(first)
        return []

    def _constant(self, name: str, dtype: Any) -> NDArray[Any] | None:
        """The value where it is the same on every run, and the type holds it."""
        found = self._imp.symbols.static(name)
        if found is None or not np.array_equal(found.astype(dtype), found):
            return None
        return found.astype(dtype)

    def follow(self, node: Node, ops: Sequence[Operation]) -> None:
        """Note the ops that a node became."""
        if node.index in self._followed:
            self._made.update(dict.fromkeys(ops, node))

    def drop_unread(self) -> None:
        """Erase shape arithmetic that the model reads, but nothing does here."""
        graph = self._imp.loaded.model.graph
        read = {n for proto in graph.node for n in (*proto.input, *captured_names(proto))}
        for op, node in reversed(self._made.items()):
            if node.output(0) not in read or any(v.first_use is not None for v in op.results):
                continue
            constants = [v.owner for v in op.operands if isinstance(v.owner, ConstantOp)]
            _erase(op)
            for constant in dict.fromkeys(constants):
                if constant.result.first_use is None:
                    _erase(constant)


def _key(found: Numbers, element: Attribute) -> tuple[Any, ...]:
    return element, found.shape, *found.reshape(-1)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


# Whether a runtime runs a node that no op of ours can express.
#
# Runtimes take forms that our ops refuse: a pool whose window is larger than its input gives an
# empty tensor, a reduction of a scalar over axis 0 the scalar.  Such a node is kept as it is.
# A node that is wrong is told apart by running it alone, on its constants and on zeros.

_EXTENTS = (1, 8, 0)
"""What unknown extents are tried as."""
_MOST = 1 << 24
"""Elements of an operand that are made for this."""


def by_rule(imp: Importer, rule: Rule, node: Node) -> list[SSAValue] | None:
    """What a rule makes of a node; None for one that is right, but that the rule refuses."""
    try:
        return rule(imp, node)
    except (VerifyException, InputError) as error:
        if isinstance(error, InputError) and error.code not in ("invalid-node", "bad-qparams"):
            raise
        if not runs(imp, node):
            raise
        imp.take_back()
        return None


def runs(imp: Importer, node: Node) -> bool:
    """Whether ONNX Runtime (the reference evaluator of ONNX, where that is not installed) runs
    the node, whatever unknown extents are; False where an operand's type is not known."""
    return any(_runs(_alone(imp, node, unknown)) for unknown in _EXTENTS)


def _runs(model: ModelProto | None) -> bool:
    if model is None:
        return False
    helper, feeds = package("onnx.helper"), dict[str, Any]()
    for info in model.graph.input:
        kind = info.type.tensor_type
        feeds[info.name] = _zeros(kind, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return answers(model, feeds) is not None


def answers(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """What ONNX Runtime (or the reference evaluator) makes of a model; None where it fails."""
    from qdialect.plugins.onnx.write.engine import OrtEngine

    try:
        if find_spec("onnxruntime") is not None:
            return list(OrtEngine(model, optimize=False).run(feeds).values())
        return list(package("onnx.reference").ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # of whatever kind a runtime raises
        return None


def _zeros(kind: Any, dtype: Any) -> Any:
    import numpy as np

    return np.zeros([dim.dim_value for dim in kind.shape.dim], dtype)


def _code(element: Attribute) -> int | None:
    """The ONNX type of a tensor's elements, stored integers if they are quantized."""
    if not isinstance(element, UniformType):
        return DATA_TYPES.get(element)
    storage = element.qparams.storage
    if storage.is_float:
        return None
    return DATA_TYPES.get(
        IntegerType(storage.width, Signedness.SIGNLESS if storage.signed else Signedness.UNSIGNED)
    )


def types_alone(imp: Importer, node: Node) -> dict[str, Attribute]:
    """The types of a node's outputs that inference finds for it alone: with what constants the
    model computes, and behind nodes that it does not know."""
    inference, model = package("onnx.shape_inference"), _alone(imp, node, None)
    try:
        found = model and inference.infer_shapes(model)
    except (inference.InferenceError, RuntimeError, ValueError):
        found = None
    return {v.name: value_type(v.type) for v in found.graph.output} if found else {}


def _alone(imp: Importer, node: Node, unknown: int | None) -> ModelProto | None:
    """The node as a model, unknown extents being `unknown`; None where that is not known."""
    onnx, loaded = package("onnx"), imp.loaded
    if any(attribute.ref_attr_name for attribute in node.proto.attribute):
        return None
    graph = onnx.GraphProto(name="node", node=[node.proto])
    for name in dict.fromkeys(name for name in node.inputs if name):
        tensor = imp.statics.get(name)
        if tensor is not None and tensor.data_location != onnx.TensorProto.EXTERNAL:
            given = graph.initializer.add()
            given.CopyFrom(tensor)
            given.name = name
            continue
        if tensor is not None:
            code, dims = tensor.data_type, list(tensor.dims)
        else:
            kind = imp.type_of(name)
            if not isinstance(kind, TensorType):
                return None
            ranked = cast("TensorType[Attribute]", kind)
            code = _code(element_type(ranked))
            dims = [unknown if n == DYNAMIC else n for n in extents(ranked)]
        if code is None or (unknown is not None and prod(n or 1 for n in dims) > _MOST):
            return None
        graph.input.append(onnx.helper.make_tensor_value_info(name, code, dims))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.outputs if name)
    model: ModelProto = onnx.ModelProto(ir_version=loaded.model.ir_version, graph=graph)
    model.opset_import.extend(loaded.model.opset_import)
    return model


# What an ONNX model says about itself, as an attribute of the module.


def metadata(loaded: LoadedModel) -> DictionaryAttr:
    """Versions, texts, metadata entries, and whether weights are in files beside it."""
    model = loaded.model
    entries: dict[str, Attribute] = {
        "ir_version": IntegerAttr(model.ir_version, i64),
        "opset": DictionaryAttr(
            {o.domain or "ai.onnx": IntegerAttr(o.version, i64) for o in model.opset_import}
        ),
    }
    for name in ("producer_name", "producer_version", "domain", "doc_string"):
        if text := getattr(model, name):
            entries[name] = StringAttr(text)
    if model.model_version:
        entries["model_version"] = IntegerAttr(model.model_version, i64)
    # The keys are on the ops, the qparams in the types, the identity is the module's.
    own = (KEYS, QPARAMS, IDENTITY)
    texts = {p.key: StringAttr(p.value) for p in model.metadata_props if p.key not in own}
    if texts:
        entries["metadata"] = DictionaryAttr(texts)
    if any(map(loaded.tensors.has_file, model.graph.initializer)):
        entries[EXTERNAL_DATA] = UnitAttr()
    return DictionaryAttr(entries)


def symbol(name: str) -> str:
    """`name` as a bare MLIR symbol."""
    text = re.sub(r"[^A-Za-z0-9_$.]", "_", name) or "main"
    return text if re.match(r"[A-Za-z_]", text) else f"_{text}"
