"""Building a module from an ONNX model: one function, one op per node, names as attributes.

The walk takes the nodes in file order; `table.py` says which import function builds the ops of
a node, with what `importer.py` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
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
from qdialect.ir.ops import KEY
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.keys import MODEL as IDENTITY_KEY
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import ARITHMETIC_KEY, IN_FLOATS, UniformType, element_type, with_element
from qdialect.ir.quant.elements import is_tensor
from qdialect.plugins.onnx.dialect import ALIASES, DATA_TYPES, DOC, MODEL, PARAMS, NodeOp
from qdialect.plugins.onnx.read.importer import Importer
from qdialect.plugins.onnx.read.known_parameters import KnownParameters
from qdialect.plugins.onnx.read.load import LoadedModel, load_model, read_identity
from qdialect.plugins.onnx.read.metadata import metadata, symbol
from qdialect.plugins.onnx.read.node import Node, stable_keys, trimmed
from qdialect.plugins.onnx.read.operand_types import check_operand_types
from qdialect.plugins.onnx.read.probe import by_rule, types_alone
from qdialect.plugins.onnx.read.quantized_inputs import quantized_constants, quantized_inputs, suits
from qdialect.plugins.onnx.read.quark import TRANSLATED, translation
from qdialect.plugins.onnx.read.scale_places import correction, placed
from qdialect.plugins.onnx.read.shape_arithmetic import ShapeArithmetic
from qdialect.plugins.onnx.read.table import RULES
from qdialect.plugins.onnx.read.types import UNKNOWN, dim_names, is_open, met, value_type

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto, ValueInfoProto


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
