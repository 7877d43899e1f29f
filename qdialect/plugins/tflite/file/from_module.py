"""A module of `tflite.node` as a file: what `read_module` made of one, or a lowering of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from qdialect.algebra.qparams.parameters import Layout
from qdialect.errors import QError, UnsupportedError, Where
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import (
    ARG_NAME,
    GRAPH_NAME,
    OUTPUTS,
    RESULT_NAMES,
    derived_outputs,
)
from qdialect.ir.ops.constants import BlobAttr, ConstantOp, constant_array, dense_array
from qdialect.ir.ops.keys import keys_of
from qdialect.ir.quant import UniformType
from qdialect.plugins.tflite.dialect import (
    CONSTANT,
    FILE,
    INTERMEDIATES,
    MUTATING,
    TABLE,
    VARIABLE,
    VARIABLES,
    TfliteNodeOp,
)
from qdialect.plugins.tflite.file.elements import from_stored
from qdialect.plugins.tflite.file.model import (
    ABSENT,
    Blocks,
    File,
    Kind,
    Operator,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
)
from qdialect.plugins.tflite.file.options import to_options
from qdialect.plugins.tflite.file.schema import schema_of
from qdialect.plugins.tflite.file.to_module import value_facts
from qdialect.plugins.tflite.file.types import tensor_of
from qdialect.plugins.tflite.file.versions import version_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSIONS: Mapping[Kind, int] = {"tflite": 3, "circle": 0}
SIGNATURE = "serving_default"
"""The signature of a model that has none."""


def module_file(module: ModuleOp, ctx: QContext, kind: Kind = "tflite") -> File:
    """The file of a module whose functions have only `tflite.node` and `nn.constant`.

    Raises UnsupportedError with the op that has no place in such a file, or that this kind of
    file does not know.
    """
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    # Callers run the first subgraph.
    functions.sort(key=lambda function: function.sym_name.data != "main")
    for op in module.body.block.ops:
        if not isinstance(op, FuncOp):
            raise _unsupported(op, kind)
    numbers = {function.sym_name.data: index for index, function in enumerate(functions)}
    if not functions:
        raise UnsupportedError("the module has no function", code="unsupported")
    subgraphs = [_Graph(function, ctx, kind, numbers).build() for function in functions]
    said = module.attributes.get(FILE)
    fields = cast("Mapping[str, Any]", said.data if isinstance(said, DictionaryAttr) else {})
    file = File(kind, VERSIONS[kind], subgraphs)
    if "description" in fields:
        file.description = fields["description"].data
    pairs = (entry.data for entry in (fields["metadata"].data if "metadata" in fields else ()))
    file.metadata = {name.data: _bytes(content, ctx) for name, content in pairs}
    file.signatures = [
        found
        for entry in (fields["signatures"].data if "signatures" in fields else ())
        if (found := _signature(entry.data, numbers, subgraphs)) is not None
    ]
    if not fields:
        file.signatures = [_default_signature(subgraphs[0])]
    return file


def _unsupported(op: Operation, kind: Kind, reason: str = "") -> QError:
    keys = keys_of(op)
    name = f" '{keys[0]}'" if keys else ""
    reason = reason or f"a {_KINDS[kind]} file has no op '{op.name}'"
    node = op.op.data if isinstance(op, TfliteNodeOp) else op.name
    return UnsupportedError(reason, where=Where(node=f"{node}{name}"), code="unsupported")


_KINDS: Mapping[Kind, str] = {"tflite": "TFLite", "circle": "Circle"}


def _bytes(content: Attribute, ctx: QContext) -> bytes:
    if isinstance(content, BlobAttr):
        return bytes(ctx.blobs.get(content.key.data).data)
    return dense_array(cast("Any", content)).tobytes()


def _signature(
    entry: Mapping[str, Any], numbers: Mapping[str, int], subgraphs: list[Subgraph]
) -> Signature | None:
    """The signature, without names of values that are gone; None where its function is."""
    function = cast("SymbolRefAttr", entry["function"]).string_value()
    if function not in numbers:
        return None
    subgraph = subgraphs[numbers[function]]
    names = {tensor.name: index for index, tensor in reversed(list(enumerate(subgraph.tensors)))}

    def known(field: str) -> dict[str, int]:
        pairs = (string_list(pair) for pair in entry[field].data)
        return {name: names[tensor] for name, tensor in pairs if tensor in names}

    return Signature(entry["key"].data, numbers[function], known("inputs"), known("outputs"))


def _default_signature(subgraph: Subgraph) -> Signature:
    def named(numbers: list[int]) -> dict[str, int]:
        return {subgraph.tensors[number].name: number for number in numbers}

    return Signature(SIGNATURE, 0, named(subgraph.inputs), named(subgraph.outputs))


class _Graph:
    """Makes the subgraph of one function."""

    def __init__(
        self, function: FuncOp, ctx: QContext, kind: Kind, functions: Mapping[str, int]
    ) -> None:
        self._function, self._ctx, self._functions = function, ctx, functions
        self._kind: Kind = kind
        self._schema = schema_of(kind)
        self._tensors: list[Tensor] = []
        self._numbers: dict[SSAValue, int] = {}
        self._taken: set[str] = set()
        #: names of results of the function, which they keep
        self._outputs: dict[SSAValue, str] = {}

    def build(self) -> Subgraph:
        """The subgraph, with the ops in their order."""
        function = self._function
        if len(function.body.blocks) != 1:
            raise _unsupported(function, self._kind, "a function of several blocks or none")
        block = function.body.block
        returned = block.last_op
        if not isinstance(returned, ReturnOp):
            raise _unsupported(function, self._kind, "a function that does not return")
        names = string_list(function.attributes.get(RESULT_NAMES))
        for value, name in zip(returned.operands, names, strict=False):
            if not isinstance(value, BlockArgument):
                self._outputs.setdefault(value, name)
        arguments = function.arg_attrs.data if function.arg_attrs else ()
        entries = [*arguments, *[DictionaryAttr({})] * len(block.args)]
        # Names of inputs and outputs are what callers know: nothing else takes them.
        self._taken.update(self._outputs.values())
        for argument, entry in zip(block.args, entries, strict=False):
            name = entry.data.get(ARG_NAME)
            text = name.data if isinstance(name, StringAttr) else f"arg{argument.index}"
            self._add(argument, text, function)
        operators: list[Operator] = []
        for op in block.ops:
            if isinstance(op, TfliteNodeOp) and op.op.data not in (CONSTANT, VARIABLE):
                operators.append(self._operator(op))
            elif not isinstance(op, ConstantOp | TfliteNodeOp | ReturnOp):
                raise _unsupported(op, self._kind)
        name = function.attributes.get(GRAPH_NAME)
        return Subgraph(
            name.data if isinstance(name, StringAttr) else function.sym_name.data,
            self._tensors,
            [self._numbers[argument] for argument in block.args],
            [self._number(value) for value in returned.operands],
            operators,
        )

    # -- tensors ------------------------------------------------------------------------

    def _name(self, value: SSAValue, name: str) -> str:
        if value in self._outputs:
            return self._outputs[value]
        number = 0
        found = name
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def _add(self, value: SSAValue, name: str, owner: Operation) -> Tensor:
        tensor = self._typed(value.type, self._name(value, name), owner)
        self._numbers[value] = self._append(tensor)
        return tensor

    def _append(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def _typed(self, type: Attribute, name: str, owner: Operation) -> Tensor:
        import numpy as np

        try:
            tensor = tensor_of(type, name)
        except ValueError as error:
            raise _unsupported(owner, self._kind, f"TFLite has no such value: {error}") from None
        if tensor.type not in self._schema.enums["TensorType"].numbers:
            reason = f"a {_KINDS[self._kind]} file has no type {tensor.type}"
            raise _unsupported(owner, self._kind, reason)
        element = cast("TensorType[Attribute]", type).element_type
        if isinstance(element, UniformType) and element.qparams.layout is Layout.BLOCK:
            params = element.qparams
            sizes = {size for _, size in params.blocks if size > 1}
            scales = np.frombuffer(params.scales, np.float64).reshape(params.grid)
            half = scales.astype(np.float16)
            if len(sizes) > 1 or (half != scales).any() or not params.grid:
                reason = "blocks along several axes, or with scales that are no 16-bit floats"
                raise _unsupported(owner, self._kind, reason)
            number = self._constant(f"{name}_scales", "FLOAT16", half)
            zeros = np.frombuffer(params.zero_points, np.int64).reshape(params.grid)
            zero = ABSENT
            if zeros.any():
                zero = self._constant(f"{name}_zero_points", "INT32", zeros.astype(np.int32))
            blocks = Blocks(number, zero, max(sizes, default=1))
            empty = np.empty(0, np.float32), np.empty(0, np.int64)
            tensor.quantization = Quantization(*empty, blocks=blocks)
        return tensor

    def _constant(self, name: str, type: str, data: NDArray[Any]) -> int:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return self._append(Tensor(name, data.shape, type, data=data))

    def _number(self, value: SSAValue) -> int:
        """The tensor of a value; constants become one where something first reads them."""
        if value not in self._numbers:
            op = value.owner
            assert isinstance(op, Operation)
            names = keys_of(op)
            tensor = self._add(value, names[0] if names else "constant", op)
            if isinstance(op, ConstantOp):
                tensor.data = constant_array(op, self._ctx.blobs)
            elif isinstance(op, TfliteNodeOp) and op.op.data == VARIABLE:
                tensor.is_variable = True
            elif isinstance(op, TfliteNodeOp) and op.custom is not None:
                tensor.data = self._elements(op, tensor)
        return self._numbers[value]

    def _elements(self, op: TfliteNodeOp, tensor: Tensor) -> NDArray[Any]:
        import numpy as np

        assert op.custom is not None
        try:
            stored = np.frombuffer(bytes.fromhex(op.custom.data), np.uint8)
            return from_stored(stored, tensor.type, tensor.shape)
        except ValueError as error:
            raise _unsupported(op, self._kind, f"its bytes are not its elements: {error}") from None

    # -- ops ----------------------------------------------------------------------------

    def _operator(self, op: TfliteNodeOp) -> Operator:
        name = op.op.data
        is_custom = op.custom is not None
        if not is_custom and name not in self._schema.enums["BuiltinOperator"].numbers:
            raise _unsupported(op, self._kind, f"a {_KINDS[self._kind]} file has no op '{name}'")
        inputs = [ABSENT if v is None else self._number(v) for v in op.arguments]
        keys = keys_of(op)
        key = keys[0] if keys else name.lower()
        names = string_list(op.attributes.get(OUTPUTS))
        if len(names) != len(op.results):
            names = derived_outputs(key, len(op.results))
        for result, text in zip(op.results, names, strict=True):
            self._add(result, text, op)
        outputs = [self._numbers[result] for result in op.results]
        variables = op.attributes.get(VARIABLES)
        if isinstance(variables, DenseArrayBase):
            for number in variables.get_values():
                self._tensors[outputs[int(number)]].is_variable = True
        found = Operator(name, 1, inputs, outputs, is_custom=is_custom)
        if op.custom is not None:
            found.custom = bytes.fromhex(op.custom.data)
        else:
            self._set_options(found, op)
        if op.version is not None:
            found.version = op.version.value.data
        elif not is_custom:
            values, made = (
                [None if n == ABSENT else value_facts(self._tensors[n]) for n in numbers]
                for numbers in (inputs, outputs)
            )
            found.version = version_of(name, values, made, found.options)
        types = op.attributes.get(INTERMEDIATES)
        if isinstance(types, ArrayAttr):
            entries = cast("ArrayAttr[Attribute]", types).data
            for index, type in enumerate(entries):
                if isinstance(type, StringAttr):
                    found.intermediates.append(ABSENT)
                else:
                    self._taken.add(text := f"{key}_intermediate_{index}")
                    found.intermediates.append(self._append(self._typed(type, text, op)))
        mutating = op.attributes.get(MUTATING)
        if isinstance(mutating, DenseArrayBase):
            found.mutating = [bool(value) for value in mutating.get_values()]
        return found

    def _set_options(self, found: Operator, op: TfliteNodeOp) -> None:
        own = self._schema.options.get(found.op, "")
        other = op.attributes.get(TABLE)
        table = other.data if isinstance(other, StringAttr) else own
        if table and table not in self._schema.tables:
            raise _unsupported(op, self._kind, f"there are no options '{table}'")
        found.table = table if table != own else None
        if table or not own:
            try:
                found.options = to_options(self._schema, table, op.options.data, self._functions)
            except ValueError as error:
                raise _unsupported(op, self._kind, str(error)) from None
