"""Building the module: one function, one op per node, names kept as attributes.

The importer walks the nodes in file order with a table from tensor name to SSA
value.  Constants become ops when something first reads them as a value; what only
serves as a shape, an axis list or qparams never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    Signedness,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.context import QContext
from qdialect.dialects.onnx import (
    ALIASES,
    ARG_NAME,
    DATA_TYPES,
    DIMS,
    DOC,
    GRAPH_NAME,
    MODEL,
    OUTPUTS,
    PARAMS,
    RESULT_NAMES,
    NodeOp,
    derived_outputs,
    is_tensor,
    package,
    string,
    strings,
)
from qdialect.errors import InputError, Where
from qdialect.formats.onnx.read.attributes import ir_attribute
from qdialect.formats.onnx.read.graph_tensors import GraphTensors
from qdialect.formats.onnx.read.load import (
    LoadedModel,
    load_model,
    read_interface,
    read_keys,
)
from qdialect.formats.onnx.read.metadata import metadata, symbol
from qdialect.formats.onnx.read.node import Node, is_stateful, stable_keys, trimmed
from qdialect.formats.onnx.read.operand_types import check_operand_types
from qdialect.formats.onnx.read.shape_arithmetic import ShapeArithmetic
from qdialect.formats.onnx.read.subgraphs import captured_names
from qdialect.formats.onnx.read.symbols import Symbols
from qdialect.formats.onnx.read.tensors import ELEMENT_NAMES, stored_float
from qdialect.formats.onnx.read.types import UNKNOWN, dim_names, extents, value_type
from qdialect.ops import KEY
from qdialect.ops.base import ranked
from qdialect.ops.shapes import DYNAMIC
from qdialect.quant import (
    ARITHMETIC_KEY,
    IN_FLOATS,
    SCastOp,
    UniformType,
    element_type,
    storage_type,
    with_element,
)
from qdialect.weights import DTYPES

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto


_START = IntAttr(0)


def import_model(
    source: str | Path | bytes | ModelProto, ctx: QContext, dims: Mapping[str, int] | None = None
) -> ModuleOp:
    """Read an ONNX model as a module with one function; `dims` are numbers for symbolic extents.

    What we know becomes `nn` and `quant` ops, every other node an `onnx.node`.
    Weights go to `ctx.blobs`.  Raises InputError (file and node) for a model that
    is broken, QError (`missing-package`) without the `onnx` package.
    """
    try:
        loaded = load_model(source, dims)
        check_operand_types(loaded)
        return Importer(ctx, loaded).run()
    except UnicodeDecodeError:
        # Raised by protobuf when a text field is read, and by the ONNX checker.
        raise InputError(
            "a name or text in the model is not UTF-8",
            where=Where(file=str(source) if isinstance(source, str | Path) else None),
            code="invalid-onnx",
        ) from None


class Importer(GraphTensors):
    """The state of one import."""

    def __init__(self, ctx: QContext, loaded: LoadedModel) -> None:
        super().__init__(loaded)
        self.ctx = ctx
        self.block = Block()
        #: quantized types by the names of their parameters
        self.encodings: dict[tuple[Any, ...], UniformType | None] = {}
        #: ops that were also built in another form: their readers first
        self.replaced: list[Operation] = []
        self.symbols = Symbols(self)
        self._arithmetic = ShapeArithmetic(self)
        self._constants: dict[tuple[str, Attribute], SSAValue] = {}
        self._emitted: list[Operation] = []
        #: other names of the results of ops
        self._aliases: dict[Operation, list[str]] = {}
        self._node_index = 0
        self._keys = read_keys(loaded)
        self.stated = read_interface(loaded)
        self._file = StringAttr(loaded.file or "<model>")

    # -- what importers use -------------------------------------------------------

    def value(self, name: str) -> SSAValue:
        """The SSA value of a tensor: floats, other numbers, or a quantized type."""
        if name not in self.values:
            tensor = self.statics[name]
            element = self.loaded.tensors.element(tensor)
            if ELEMENT_NAMES[element] not in DTYPES:
                self.values[name] = self._constant_node(name, tensor, element)
            else:
                self.values[name] = self.constant(name, element)
        return self.values[name]

    def constant(self, name: str, element: Attribute) -> SSAValue:
        """A static tensor as a constant under an element type (see `TensorReader`)."""
        key = (name, element)
        if key not in self._constants:
            op = self.loaded.tensors.constant(self.statics[name], element, self.ctx.blobs)
            op.attributes[KEY] = string(name)
            self._keys.name(op)
            op.location = self._location(name)
            self.block.add_op(op)
            self._constants[key] = op.results[0]
        return self._constants[key]

    def onnx_value(self, name: str) -> SSAValue:
        """The tensor as ONNX types it: a quantized value as its stored integers."""
        value = self.value(name)
        element = element_type(value.type)
        if not isinstance(element, UniformType):
            return value
        if element.qparams.storage.is_float:
            return self._recast(value, stored_float(element))
        stored = self.emit(SCastOp(value, with_element(value.type, storage_type(element.qparams))))
        if element.qparams.storage.signed:
            return stored.results[0]
        unsigned = IntegerType(element.qparams.storage.width, Signedness.UNSIGNED)
        return self._recast(stored.results[0], unsigned)

    def _recast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits under another element type."""
        target = with_element(value.type, element)
        return self.emit(UnrealizedConversionCastOp.get([value], [target])).results[0]

    def quantized(self, value: SSAValue, element: UniformType) -> SSAValue:
        """Stored integers, or a quantized value of the same storage, read under `element`."""
        if element.qparams.storage.is_float:
            if isinstance(element_type(value.type), UniformType):
                value = self._recast(value, stored_float(element))
            return self._recast(value, element)
        signless = with_element(value.type, storage_type(element.qparams))
        if isinstance(element_type(value.type), UniformType):
            value = self.emit(SCastOp(value, signless)).results[0]
        elif value.type != signless:
            value = self._recast(value, element_type(signless))
        return self.emit(SCastOp(value, with_element(signless, element))).results[0]

    def emit(self, op: Operation) -> Operation:
        """Append an op of the node being imported."""
        self.block.add_op(op)
        self._emitted.append(op)
        return op

    def take_back(self) -> None:
        """Erase what was emitted of the node being imported."""
        for op in reversed(self._emitted):
            op.detach()
            op.erase()
        self._emitted.clear()

    def build(
        self, kind: type[Any], *operands: SSAValue, output: str, **properties: Any
    ) -> SSAValue:
        """Append an `nn` op whose result is tensor `output`.

        The shape is the one the op infers, with extents that only ONNX shape
        inference knows filled in.
        """
        return self.shaped(kind(*operands, **properties), output)

    def shaped(self, op: Operation, output: str) -> SSAValue:
        """Append an op whose result is tensor `output`, as `build` does."""
        known = value_type(self.loaded.types.get(output))
        result = op.results[0]
        own = cast("TensorType[Attribute]", result.type)
        if isinstance(known, TensorType) and known.get_num_dims() == own.get_num_dims():
            theirs = extents(cast("TensorType[Attribute]", known))
            shape = [b if a == DYNAMIC else a for a, b in zip(extents(own), theirs, strict=True)]
            result._type = ranked(own.element_type, shape)  # pyright: ignore[reportPrivateUsage]
        return self.emit(op).results[0]

    def keep(self, node: Node) -> list[SSAValue]:
        """The node as it is."""
        attributes = {a.name: ir_attribute(a, self.ctx.blobs) for a in node.proto.attribute}
        inputs = [self.onnx_value(name) if name else None for name in node.inputs]
        captures = {name: self.onnx_value(name) for name in captured_names(node.proto)}
        types = [value_type(self.loaded.types.get(n)) if n else None for n in node.outputs]
        op = NodeOp(
            node.op_type,
            inputs,
            types,
            attributes,
            domain=node.domain,
            captures=captures,
            stateful=is_stateful(node.proto),
        )
        return list(self.emit(op).results)

    # -- the walk -----------------------------------------------------------------

    def run(self) -> ModuleOp:
        """The module."""
        from qdialect.formats.onnx.read.quantized_inputs import (
            quantized_constants,
            quantized_inputs,
        )

        graph = self.loaded.model.graph
        arguments = [v for v in graph.input if v.name not in self.statics]
        quantized = quantized_inputs(self)
        kinds: list[Attribute] = []
        for info in arguments:
            kind = value_type(info.type)
            if kind == UNKNOWN:
                raise InputError(
                    f"graph input '{info.name}' has no type",
                    where=self.loaded.where(),
                    code="invalid-onnx",
                )
            if info.name in quantized:
                kind = with_element(kind, quantized[info.name])
            kinds.append(kind)
        self.block = Block(arg_types=kinds)
        self.values.update((v.name, a) for v, a in zip(arguments, self.block.args, strict=True))
        self.symbols.name(None, [v.name for v in arguments], self.block.args)
        for name, element in quantized_constants(self).items():
            self.values[name] = self.constant(name, element)
        for tensor in graph.sparse_initializer:
            raise InputError(
                f"initializer '{tensor.values.name}' is sparse, which is not supported",
                where=self.loaded.where(),
                code="unsupported",
            )
        for index, (proto, key) in enumerate(zip(graph.node, stable_keys(graph.node), strict=True)):
            self._import_node(trimmed(proto, key, index, self.loaded.where(key)))
        for op, names in self._aliases.items():
            op.attributes[ALIASES] = strings(names)
        results = [self._output(info) for info in graph.output]
        self._drop_replaced(results)
        self.block.add_op(ReturnOp(*results))
        self._arithmetic.drop_unread()
        return self._module([v.type for v in arguments], [v.name for v in arguments], results)

    def _output(self, info: ValueInfoProto) -> SSAValue:
        """The value of a graph output, which must have the element type it declares."""
        value = self.value(info.name)
        declared, found = (element_type(t) for t in (value_type(info.type), value.type))
        if isinstance(found, UniformType):
            storage = found.qparams.storage
            sign = Signedness.SIGNLESS if storage.signed else Signedness.UNSIGNED
            found = IntegerType(storage.width, sign) if not storage.is_float else declared
        stated = self.stated.get(info.name)
        if stated is not None and declared == found == element_type(value.type):
            from qdialect.formats.onnx.read.quantized_inputs import suits

            return self.quantized(value, stated) if suits(stated, value.type) else value
        known = declared in DATA_TYPES and found in DATA_TYPES
        if known and is_tensor(value.type) and declared != found:
            raise InputError(
                f"graph output '{info.name}' is declared {declared}, but is computed as {found}",
                where=self.loaded.where(),
                code="invalid-onnx",
            )
        return value

    def _drop_replaced(self, results: Sequence[SSAValue]) -> None:
        """Erase what is only read in another form."""
        returned = set(results)
        for op in self.replaced:
            if op.parent is not None and op.results[0].first_use is None:
                if op.results[0] in returned:
                    continue
                op.detach()
                op.erase()

    def _import_node(self, node: Node) -> None:
        from qdialect.formats.onnx.read.probe import by_rule
        from qdialect.formats.onnx.read.table import RULES

        self._emitted.clear()
        self._node_index = node.index
        rule = RULES.get((node.domain, node.op_type))
        try:
            results = self._arithmetic.result(node)
            if results is None:
                results = by_rule(self, rule, node) if rule else None
            if results is None:
                results = self.keep(node)
        except VerifyException as error:
            raise InputError(str(error), where=node.where, code="invalid-node") from None
        location = self._location(node.key)
        for op in self._emitted:
            op.location = location
        present = [name for name in node.outputs if name]
        self.values.update(zip(present, results, strict=False))
        self.symbols.name(node, present, results)
        self._arithmetic.follow(node, self._emitted)
        if results:
            self._name(node, results[0].owner, present)

    def _name(self, node: Node, owner: Operation | Block, outputs: list[str]) -> None:
        if not isinstance(owner, Operation):
            return
        if owner not in self._emitted:
            self._aliases.setdefault(owner, []).extend(outputs)
            return
        owner.attributes[KEY] = string(node.key)
        self._keys.name(owner)
        operands = len(owner.operands)
        named = node.names_inputs and not isinstance(owner, NodeOp)
        if named and len(node.inputs) > operands:
            # A computed input has a name of its own.
            names = [name if name in self.statics else "" for name in node.inputs[operands:]]
            owner.attributes[PARAMS] = strings(names)
        if outputs != derived_outputs(node.key, len(outputs)):
            owner.attributes[OUTPUTS] = strings(outputs)
        if node.proto.doc_string:
            owner.attributes[DOC] = StringAttr(node.proto.doc_string)

    def _location(self, key: str) -> NameLoc:
        place = FileLineColLoc(self._file, IntAttr(self._node_index), _START)
        return NameLoc(string(key), place)

    def _constant_node(self, name: str, tensor: TensorProto, element: Attribute) -> SSAValue:
        """A constant of a type the weight store does not hold, as a `Constant` node."""
        proto = package("onnx.helper").make_node("Constant", [], [name], value=tensor)
        attributes = {a.name: ir_attribute(a, self.ctx.blobs) for a in proto.attribute}
        op = NodeOp("Constant", [], [TensorType(element, tuple(tensor.dims))], attributes)
        op.attributes[KEY] = string(name)
        op.location = self._location(name)
        self.block.add_op(op)
        return op.results[0]

    # -- module and function --------------------------------------------------------

    def _module(
        self, types: list[TypeProto], names: list[str], results: Sequence[SSAValue]
    ) -> ModuleOp:
        model = self.loaded.model
        arguments: list[DictionaryAttr] = []
        for name, proto in zip(names, types, strict=True):
            entry: dict[str, Attribute] = {ARG_NAME: StringAttr(name)}
            dims = dim_names(proto)
            if dims is not None:
                entry[DIMS] = dims
            arguments.append(DictionaryAttr(entry))
        function = FuncOp(
            symbol(model.graph.name),
            ([a.type for a in self.block.args], [r.type for r in results]),
            Region(self.block),
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
        module = ModuleOp([function], {MODEL: metadata(self.loaded), ARITHMETIC_KEY: IN_FLOATS})
        if self.loaded.file:
            file = StringAttr(self.loaded.file)
            module.location = FileLineColLoc(file, IntAttr(0), IntAttr(0))
        return module
