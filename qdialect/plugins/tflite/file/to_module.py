"""A file as a module: each subgraph a function, each op a `tflite.node`, one to one.

    func.func @main(%x: tensor<1x4x!quant.uniform<i8:f32, 0.1>> {nn.name = "x"}) -> ... {
      %w = nn.constant dense<...> {nn.key = "w"} : tensor<3x4x!quant.uniform<i8:f32, 0.5>>
      %y = tflite.node "FULLY_CONNECTED" (%x, %w) absent [2] options {...} {nn.key = "y"} : ...

Tensors have their names, constants are views of the file. Constants of which a file has only the
elements that are not zero get all of them, and DENSIFY, which does that as a model runs, is gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qdialect.errors import InputError, QError, UnsupportedError, Where
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
from qdialect.ir.ops import KEY, make_constant
from qdialect.ir.ops.constants import element_name, payload
from qdialect.ir.quant import ARITHMETIC_KEY, IN_FLOATS, UniformType
from qdialect.ir.weights import DTYPES
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
from qdialect.plugins.tflite.file.elements import from_stored, to_stored
from qdialect.plugins.tflite.file.flatbuffer_read import CODE
from qdialect.plugins.tflite.file.model import ABSENT, File, Operator, Signature, Subgraph, Tensor
from qdialect.plugins.tflite.file.options import to_attributes
from qdialect.plugins.tflite.file.schema import schema_of
from qdialect.plugins.tflite.file.types import tensor_type
from qdialect.plugins.tflite.file.versions import Value, version_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_START = IntAttr(0)


def read_module(file: File, ctx: QContext) -> ModuleOp:
    """The module of a file; its constants go to `ctx.blobs`.

    Raises InputError (`invalid-tflite`) and UnsupportedError with the tensor or op.
    """
    functions = _function_names(file)
    built = [_Function(file, n, functions, ctx).build() for n in range(len(functions))]
    module = ModuleOp(built, {FILE: _said(file, functions, ctx), ARITHMETIC_KEY: IN_FLOATS})
    module.location = FileLineColLoc(string(file.name), _START, _START)
    return module


def _function_names(file: File) -> list[str]:
    """Symbols of subgraphs: `main`, then their names, each once."""
    found: list[str] = []
    for index, subgraph in enumerate(file.subgraphs):
        plain = re.sub(r"[^A-Za-z0-9_.$]", "_", subgraph.name) or f"subgraph_{index}"
        name = plain if not plain[0].isdigit() else f"_{plain}"
        name = "main" if index == 0 else name
        found.append(name if name not in found else f"{name}_{index}")
    return found


def tensor_names(subgraph: Subgraph) -> list[str]:
    """The names of tensors, each once: those without a name, and those whose name another one
    before has, get their number."""
    taken: set[str] = set()
    found: list[str] = []
    for index, tensor in enumerate(subgraph.tensors):
        name = tensor.name or f"tensor_{index}"
        while name in taken:
            name += f"_{index}"
        taken.add(name)
        found.append(name)
    return found


def _said(file: File, functions: list[str], ctx: QContext) -> DictionaryAttr:
    """What the file says besides its subgraphs."""
    import numpy as np

    said: dict[str, Attribute] = {
        "kind": StringAttr(file.kind),
        "version": IntegerAttr(file.version, i32),
        "description": StringAttr(file.description),
    }
    # Lists of pairs: text sorts the entries of a dictionary.
    metadata: list[Attribute] = []
    for name, content in file.metadata.items():
        array = np.frombuffer(content, np.int8)
        data = payload(array, TensorType(i8, array.shape), ctx.blobs)
        metadata.append(ArrayAttr([StringAttr(name), data]))
    said["metadata"] = ArrayAttr(metadata)
    signatures: list[Attribute] = []
    for signature in file.signatures:
        names = tensor_names(file.subgraphs[signature.subgraph])
        signatures.append(_signature(signature, functions[signature.subgraph], names))
    said["signatures"] = ArrayAttr(signatures)
    return DictionaryAttr(said)


def _signature(signature: Signature, function: str, names: list[str]) -> DictionaryAttr:
    def said(entries: Mapping[str, int]) -> ArrayAttr[Attribute]:
        return ArrayAttr([strings([name, names[number]]) for name, number in entries.items()])

    return DictionaryAttr(
        {
            "key": StringAttr(signature.key),
            "function": SymbolRefAttr(function),
            "inputs": said(signature.inputs),
            "outputs": said(signature.outputs),
        }
    )


class _Function:
    """Builds the function of one subgraph."""

    def __init__(self, file: File, number: int, functions: list[str], ctx: QContext) -> None:
        self._file, self._number, self._functions, self._ctx = file, number, functions, ctx
        self._schema = schema_of(file.kind)
        self._subgraph = file.subgraphs[number]
        self._names = tensor_names(self._subgraph)
        self._values: dict[int, SSAValue] = {}
        self._types: dict[int, TensorType[Attribute]] = {}
        self._dense: dict[int, NDArray[Any]] = {}
        self._block = Block()

    def build(self) -> FuncOp:
        """The function, with one result for each output."""
        subgraph = self._subgraph
        self._block = Block(arg_types=[self._type(number) for number in subgraph.inputs])
        self._values.update(zip(subgraph.inputs, self._block.args, strict=True))
        for index, op in enumerate(subgraph.operators):
            self._operator(index, op)
        results = [self._value(number, "outputs") for number in subgraph.outputs]
        self._block.add_op(ReturnOp(*results))
        entries = [DictionaryAttr(self._argument(number)) for number in subgraph.inputs]
        function = FuncOp(
            self._functions[self._number],
            ([a.type for a in self._block.args], [r.type for r in results]),
            Region(self._block),
            visibility=None if self._number == 0 else StringAttr("private"),
            arg_attrs=ArrayAttr(entries),
        )
        function.attributes[RESULT_NAMES] = strings([self._names[n] for n in subgraph.outputs])
        function.attributes[GRAPH_NAME] = StringAttr(subgraph.name or "main")
        return function

    def _argument(self, number: int) -> dict[str, Attribute]:
        name, shape = self._names[number], self._type(number).get_shape()
        entry: dict[str, Attribute] = {ARG_NAME: StringAttr(name)}
        if min(shape, default=0) < 0:
            dims = [
                StringAttr(f"{name}.{axis}") if extent < 0 else IntegerAttr(extent, i64)
                for axis, extent in enumerate(shape)
            ]
            entry[DIMS] = ArrayAttr(dims)
        return entry

    def _place(self, what: str) -> Where:
        where = self._functions[self._number]
        return Where(self._file.name, node=what if self._number == 0 else f"{where}: {what}")

    def _bad(self, what: str, reason: object) -> QError:
        return InputError(str(reason), where=self._place(what), code=CODE)

    def _location(self, name: str, index: int) -> NameLoc:
        return NameLoc(
            string(name), FileLineColLoc(string(self._file.name), IntAttr(index), _START)
        )

    # -- values -------------------------------------------------------------------------

    def _type(self, number: int) -> TensorType[Attribute]:
        if number not in self._types:
            try:
                self._types[number] = tensor_type(self._subgraph.tensors[number], self._array)
            except ValueError as error:
                raise UnsupportedError(str(error), where=self._place(self._names[number])) from None
        return self._types[number]

    def _array(self, number: int) -> NDArray[Any] | None:
        """The elements of a constant; ValueError where they are not all there."""
        tensor = self._subgraph.tensors[number]
        if tensor.data is None or not tensor.is_stored_otherwise:
            return tensor.data
        if tensor.compression != "NONE" or tensor.sparsity is None:
            raise ValueError(
                f"its data is compressed ({tensor.compression}), which is not supported"
            )
        if number not in self._dense:
            bits = {"INT4": 2, "UINT4": 2, "INT2": 4}.get(tensor.type, 0)
            count = tensor.data.size * bits or -1
            values = from_stored(tensor.data, tensor.type, (count,))
            self._dense[number] = to_dense(values, tensor.shape, tensor.sparsity)
        return self._dense[number]

    def _value(self, number: int, reader: str) -> SSAValue:
        if number not in self._values:
            tensor = self._subgraph.tensors[number]
            name = self._names[number]
            type = self._type(number)
            try:
                array = self._array(number)
                op = self._constant(tensor, type, array)
            except ValueError as error:
                raise UnsupportedError(str(error), where=self._place(name)) from None
            op.attributes[KEY] = string(name)
            op.location = self._location(name, 0)
            self._block.add_op(op)
            self._values[number] = op.results[0]
        return self._values[number]

    def _constant(
        self, tensor: Tensor, type: TensorType[Attribute], array: NDArray[Any] | None
    ) -> Operation:
        import numpy as np

        if tensor.is_variable and array is None:
            return TfliteNodeOp(VARIABLE, [], [type])
        element = type.element_type
        known = isinstance(element, UniformType) or element_name(element) in DTYPES
        if array is None:
            array = from_stored(np.empty(0, np.uint8), tensor.type, tensor.shape)
        if known:
            return make_constant(array.reshape(tensor.shape), element, self._ctx.blobs)
        stored = to_stored(array, tensor.type)
        return TfliteNodeOp(CONSTANT, [], [type], custom=stored.tobytes().hex())

    # -- ops ----------------------------------------------------------------------------

    def _operator(self, index: int, op: Operator) -> None:
        name = self._names[op.outputs[0]] if op.outputs else f"{op.op}_{index}"
        if op.op == "DENSIFY" and not op.is_custom and self._is_dense_now(op):
            self._values[op.outputs[0]] = self._value(op.inputs[0], name)
            return
        what = f"{op.op} '{name}'"
        if op.custom and not op.is_custom:
            raise self._bad(what, "a builtin op has the options of a custom one")
        own = self._schema.options.get(op.op, "") if not op.is_custom else ""
        table = own if op.table is None else op.table
        try:
            options = self._schema.defaults(own) if own and not table else op.options
            attributes: dict[str, Attribute] = {}
            if own or table:
                attributes = to_attributes(self._schema, table or own, options, self._functions)
        except ValueError as error:
            raise self._bad(what, error) from None
        inputs = [None if n == ABSENT else self._value(n, name) for n in op.inputs]
        node = TfliteNodeOp(
            op.op,
            inputs,
            [self._type(number) for number in op.outputs],
            attributes,
            custom=op.custom.hex() if op.is_custom else None,
        )
        self._mark(node, op, own)
        node.attributes[KEY] = string(name)
        outputs = [self._names[number] for number in op.outputs]
        if outputs != derived_outputs(name, len(outputs)) and outputs:
            node.attributes[OUTPUTS] = strings(outputs)
        node.location = self._location(name, index)
        self._block.add_op(node)
        self._values.update(zip(op.outputs, node.results, strict=True))

    def _is_dense_now(self, op: Operator) -> bool:
        """Whether an op gives all elements of a constant, which it has already."""
        if len(op.inputs) != 1 or len(op.outputs) != 1 or op.inputs[0] == ABSENT:
            return False
        given, made = (self._subgraph.tensors[n] for n in (op.inputs[0], op.outputs[0]))
        same = self._type(op.inputs[0]) == self._type(op.outputs[0])
        return same and given.sparsity is not None and given.type == made.type

    def _mark(self, node: TfliteNodeOp, op: Operator, own: str) -> None:
        needed = 1
        if not op.is_custom:
            values = [self._known(number) for number in op.inputs]
            made = [self._known(number) for number in op.outputs]
            options = op.options or (self._schema.defaults(own) if own else {})
            needed = version_of(op.op, values, made, options)
        if op.version != needed:
            node.properties["version"] = IntegerAttr(op.version, i32)
        if op.table or (op.table is not None and self._schema.tables[own]):
            node.attributes[TABLE] = StringAttr(op.table)
        if op.intermediates:
            types = [
                self._type(number) if number != ABSENT else StringAttr("")
                for number in op.intermediates
            ]
            node.attributes[INTERMEDIATES] = ArrayAttr(types)
        tensors = self._subgraph.tensors
        variables = [n for n, number in enumerate(op.outputs) if tensors[number].is_variable]
        if variables:
            node.attributes[VARIABLES] = DenseArrayBase.from_list(i32, variables)
        if any(op.mutating):
            node.attributes[MUTATING] = DenseArrayBase.from_list(i8, [int(m) for m in op.mutating])

    def _known(self, number: int) -> Value | None:
        return None if number == ABSENT else value_facts(self._subgraph.tensors[number])


def value_facts(tensor: Tensor) -> Value:
    """What the versions of ops depend on."""
    given = tensor.quantization
    scales = () if given is None else tuple(map(float, given.scales))
    axis = 0 if given is None else given.axis
    return Value(tensor.type, tensor.shape, scales, axis, tensor.sparsity is not None)


# Constants of which a file has only some elements, as arrays with all of them.
#
# `SparsityParameters` lists the dimensions in an order (`traversal_order`), those behind the rank
# being blocks within the dimensions of `block_map`. Each is DENSE (all indices) or SPARSE_CSR: of
# each index of the dimensions before, a segment of the list of indices that there are.

LARGEST = 1 << 28
"""Elements of an array at most, however few of them a file has."""


def to_dense(
    values: NDArray[Any], shape: Sequence[int], sparsity: Mapping[str, Any]
) -> NDArray[Any]:
    """All elements, those that are not in `values` (rank 1) zero.

    Raises ValueError where order, segments or indices do not fit the shape.
    """
    import numpy as np

    rank, order = len(shape), _list(sparsity["traversal_order"])
    blocks = _list(sparsity["block_map"])
    levels: list[Any] = sparsity["dim_metadata"] or []
    if len(order) != len(levels) or len(order) != rank + len(blocks):
        raise ValueError("its order of dimensions does not fit its shape")
    if sorted(order[:rank]) != list(range(rank)):
        raise ValueError(f"its order of dimensions is {order}")
    if sorted(order[rank:]) != list(range(rank, len(order))) or len(set(blocks)) != len(blocks):
        raise ValueError(f"its order of blocks is {order[rank:]}")
    if prod(shape) > LARGEST:
        raise ValueError(f"an array of shape {list(shape)} is too large")
    extents = list(shape)
    sizes = [1] * rank
    for position, dimension in enumerate(blocks):
        if not 0 <= dimension < rank:
            raise ValueError(f"its blocks are of dimension {dimension}")
        level = order.index(rank + position, rank)
        sizes[dimension] = size = levels[level]["dense_size"]
        if size <= 0 or shape[dimension] % size:
            raise ValueError(f"blocks of {size} in {shape[dimension]}")
        extents[dimension] //= size
    extents += [sizes[dimension] for dimension in blocks]
    #: of each element found up to a level: its place in that level, and its indices
    places: NDArray[Any] = np.zeros(1, np.int64)
    found: NDArray[Any] = np.zeros((len(order), 1), np.int64)
    for number, (dimension, level) in enumerate(zip(order, levels, strict=True)):
        counts, places, indices = _step(places, level, extents[dimension])
        found = np.repeat(found, counts, axis=1)
        found[number] = indices
    if len(places) and places.max() >= len(values):
        raise ValueError(f"it has {len(values)} elements, too few")
    index = [np.zeros(len(places), np.int64) for _ in shape]
    for number, dimension in enumerate(order):
        if dimension < rank:
            index[dimension] += found[number] * sizes[dimension]
        else:
            index[blocks[dimension - rank]] += found[number]
    dense = np.zeros(shape, values.dtype)
    dense[tuple(index)] = values[places]
    return dense


def _step(
    places: NDArray[Any], level: Mapping[str, Any], extent: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Of each place in the level before, how many elements there are; their places in this level,
    and their indices."""
    import numpy as np

    if level["format"] == "DENSE":
        if level["dense_size"] != extent or len(places) * extent > LARGEST:
            raise ValueError(f"a dimension of {extent} has {level['dense_size']} indices")
        indices = np.arange(len(places) * extent) % max(extent, 1)
        return np.full(len(places), extent), np.repeat(places * extent, extent) + indices, indices
    segments, listed = _vector(level["array_segments"]), _vector(level["array_indices"])
    if len(places) and int(places.max()) + 1 >= len(segments):
        raise ValueError("segments are missing")
    if (np.diff(segments) < 0).any() or (segments < 0).any():
        raise ValueError("its segments are not in order")
    if len(listed) and (listed.min() < 0 or listed.max() >= extent):
        raise ValueError(f"an index is outside of a dimension of {extent}")
    starts, counts = segments[places], segments[places + 1] - segments[places]
    if counts.sum() > len(listed) or (starts + counts).max(initial=0) > len(listed):
        raise ValueError("its segments have more indices than there are")
    within: NDArray[Any] = np.arange(int(counts.sum())) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    found: NDArray[Any] = np.repeat(starts, counts) + within
    return counts, found, listed[found]


def _list(vector: Any) -> list[int]:
    return [] if vector is None else vector.tolist()


def _vector(union: Any) -> NDArray[Any]:
    """The numbers of a `SparseIndexVector`; ValueError where there are none."""
    import numpy as np

    if union is None or union[1]["values"] is None:
        raise ValueError("it lacks segments or indices")
    return union[1]["values"].astype(np.int64)
