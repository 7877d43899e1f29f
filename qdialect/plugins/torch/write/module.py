"""Writes a function as an `fx.GraphModule`: a submodule an op, a buffer or parameter a constant."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, fx
from torch.nn import Module, ModuleDict, Parameter
from xdsl.dialects.builtin import StringAttr, UnrankedTensorType, UnrealizedConversionCastOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.rounding import Rounding
from qdialect.errors import QError, UnsupportedError, Where
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import RESULT_NAMES
from qdialect.ir.dialects.kept import KeptOp
from qdialect.ir.ops import (
    BatchNormOp,
    ClipOp,
    ConcatOp,
    ConstantOp,
    InsertOp,
    NNOp,
    TableOp,
    constant_array,
    keys_of,
)
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    cast_rounding,
    element_type,
    quant_element,
)
from qdialect.ir.quant.arithmetic import arithmetic_of
from qdialect.ir.weights import BlobStore
from qdialect.plugins.torch.dialect import TorchNodeOp
from qdialect.plugins.torch.evaluate import argument_of, flattened, overload_of
from qdialect.plugins.torch.write import casts
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.rows import Number, Properties, Results, Row
from qdialect.plugins.torch.write.table import ROWS
from qdialect.plugins.torch.write.tensor_types import (
    from_array,
    inner_dtype,
    interface_dtype,
    is_signed,
)

KEYS = "keys"
"""Of a node's `meta`: the stable keys of its op."""
TYPES = "types"
"""Of a node's `meta`: the IR types of its results."""
_MEAN = 3
"""The number of the first operand of a batch normalization that is a statistic."""
_WIDEST = 16
"""Bits of the codes that ops in floats give."""


class ModuleWriter:
    """Writes one function; `trainable` as floats that are rounded to the grids."""

    def __init__(self, function: FuncOp, weights: BlobStore, trainable: bool) -> None:
        self.function, self.weights, self.trainable = function, weights, trainable
        self.root, self.graph, self.names = Module(), fx.Graph(), Names()
        self.values: dict[SSAValue, fx.Node] = {}
        self._calls: list[str] = []

    def write(self) -> fx.GraphModule:
        """The module; UnsupportedError for what has no form in torch."""
        results = self._body(self.function, [])
        self.graph.output(results[0] if len(results) == 1 else tuple(results))
        self.graph.lint()
        return fx.GraphModule(self.root, self.graph, "QuantizedModule")

    # -- functions ----------------------------------------------------------------

    def _body(self, function: FuncOp, given: Sequence[fx.Node]) -> list[fx.Node]:
        """The results of a function: of the arguments `given`, or as placeholders."""
        name = function.sym_name.data
        if name in self._calls or len(function.body.blocks) != 1:
            reason = "calls itself" if name in self._calls else "is not one block"
            raise UnsupportedError(f"function '{name}' {reason}", where=op_where(function))
        self._calls.append(name)
        block = function.body.block
        outermost = len(self._calls) == 1
        if outermost:
            self._arguments(function, block)
        else:
            self.values.update(zip(block.args, given, strict=True))
        found: list[fx.Node] = []
        for op in block.ops:
            if isinstance(op, ReturnOp):
                found = [self.values[value] for value in op.operands]
                break
            self._op(op)
        self._calls.pop()
        return self._results(function, block, found) if outermost else found

    def _arguments(self, function: FuncOp, block: Block) -> None:
        notes = function.arg_attrs.data if function.arg_attrs is not None else ()
        names = Names()
        for index, value in enumerate(block.args):
            text = notes[index].data.get("nn.name") if notes else None
            name = text.data if isinstance(text, StringAttr) else f"arg{index}"
            placeholder = self.graph.placeholder(identifier(names.path(name)))
            with self._placed(function):
                kind = value.type
                layer = casts.Argument(
                    name, extents(value), interface_dtype(kind), inner_dtype(kind)
                )
                layer.grid = self._grid(value) if self.trainable else None
            self.values[value] = self._call(f"inputs.{name}", layer, [placeholder], (), [kind])

    def _results(self, function: FuncOp, block: Block, found: Sequence[fx.Node]) -> list[fx.Node]:
        last = block.last_op
        assert last is not None
        names = string_list(function.attributes.get(RESULT_NAMES))
        shown: list[fx.Node] = []
        for index, (value, node) in enumerate(zip(last.operands, found, strict=True)):
            name = names[index] if len(names) == len(found) else f"result{index}"
            kind = value.type
            layer = casts.Result(name, extents(value), interface_dtype(kind), inner_dtype(kind))
            layer.grid = self._grid(value) if self.trainable else None
            shown.append(self._call(f"results.{name}", layer, [node], (), [kind]))
        return shown

    # -- ops ----------------------------------------------------------------------

    def _op(self, op: Operation) -> None:
        with self._placed(op):
            if isinstance(op, ConstantOp):
                self._constant(op)
            elif isinstance(op, CallOp):
                self._inlined(op)
            else:
                operands = [self.values[value] for value in op.operands]
                kinds = [result.type for result in op.results]
                keys = keys_of(op)
                name = keys[-1] if keys else op.name.replace(".", "_")
                self._bind(op, self._call(name, self._layer(op), operands, keys, kinds))

    def _bind(self, op: Operation, node: fx.Node) -> None:
        if len(op.results) == 1:
            self.values[op.results[0]] = node
            return
        for index, result in enumerate(op.results):
            part = self.graph.call_function(_item, (node, index))
            part.meta = {TYPES: [result.type]}
            self.values[result] = part

    def _inlined(self, op: CallOp) -> None:
        name = op.callee.string_value()
        module = self.function.parent_op()
        found = [
            function
            for function in (module.walk() if module is not None else ())
            if isinstance(function, FuncOp) and function.sym_name.data == name
        ]
        if not found:
            raise UnsupportedError(f"function '{name}' is not in the module", where=op_where(op))
        results = self._body(found[0], [self.values[value] for value in op.operands])
        self.values.update(zip(op.results, results, strict=True))

    def _layer(self, op: Operation) -> Module:
        if isinstance(op, NNOp):
            return self._computed(op)
        if isinstance(op, TorchNodeOp):
            return torch_layer(op)
        if isinstance(op, QCastOp | DCastOp | SCastOp | RescaleOp | UnrealizedConversionCastOp):
            return self._cast(op)
        raise unsupported(op)

    def _computed(self, op: NNOp) -> Layer:
        row = ROWS.get(op.name)
        if row is None:
            raise unsupported(op)
        operands, results = map(self._grid, op.operands), [self._grid(v) for v in op.results]
        rounding = op.properties.get("rounding")
        rounds = Rounding(rounding.data) if isinstance(rounding, StringAttr) else Rounding.HALF_EVEN
        if rounds.two_stage:
            raise UnsupportedError(f"'{op.name}' cannot round a real number with {rounds.value}")
        return self._kind(op, row)(op.name, row, properties_of(op), list(operands), results, rounds)

    def _kind(self, op: NNOp, row: Row) -> type[Layer]:
        elements = {quant_element(v.type) for v in (*op.operands, *op.results)}
        if elements == {None}:
            return PlainLayer
        if self.trainable:
            return TrainableTable if isinstance(op, TableOp) else TrainableLayer
        mixes = isinstance(op, ConcatOp | InsertOp) and len(elements) > 1
        if computes_in_floats(op, row, mixes):
            return SummedLayer if row.sums else FloatsLayer
        return CodesLayer if row.codes is not None and not mixes else RealsLayer

    def _cast(self, op: Operation) -> Module:
        source, target = self._grid(op.operands[0]), self._grid(op.results[0])
        if isinstance(op, QCastOp):
            return casts.Quantize(_known(op, target), cast_rounding(op), self.trainable)
        if isinstance(op, DCastOp):
            kind = inner_dtype(op.result.type)
            return Identity(kind) if self.trainable else casts.Dequantize(_known(op, source))
        if isinstance(op, RescaleOp):
            return self._rescale(op, _known(op, source), _known(op, target))
        kinds = [element_type(v.type) for v in (*op.operands, *op.results)]
        widths = {width for kind in kinds if (width := _width(kind))}
        if len(kinds) != 2 or len(widths) != 1:
            raise unsupported(op)
        grids = (source, target) if self.trainable else (None, None)
        kind = op.results[0].type
        return casts.SameBits(widths.pop(), is_signed(kind), inner_dtype(kind), *grids)

    def _rescale(self, op: RescaleOp, source: Grid, target: Grid) -> Module:
        if self.trainable:
            rounding = op.rounding
            known = Rounding.HALF_UP if rounding.two_stage else rounding
            return casts.Quantize(target, known, trainable=True)
        pairs = op.fixed_point
        if pairs is None:
            wide = max(g.qparams.storage.width for g in (source, target)) > _WIDEST
            floats = arithmetic_of(op).floats("f32") is not None and not wide
            return casts.Requantize(source, target, op.rounding, floats)
        owner = source if target.is_per_tensor else target
        rank = len(shape_of(op.input))
        columns = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        multiplier, shift = (from_array(owner.spread(column, rank)) for column in columns)
        return casts.FixedPoint(source, target, multiplier, shift, op.rounding)

    def _grid(self, value: SSAValue) -> Grid | None:
        element = quant_element(value.type)
        if element is None:
            return None
        known = extents(value)
        if known is None and not element.qparams.is_per_tensor:
            raise UnsupportedError(f"a value of type {value.type} has no form in PyTorch")
        return Grid(element.qparams, len(known or ()))

    # -- constants ----------------------------------------------------------------

    def _constant(self, op: ConstantOp) -> None:
        array = constant_array(op, self.weights)
        kind = inner_dtype(op.result.type)
        with warnings.catch_warnings():
            # What is mapped or shared cannot be written; nothing here writes it.
            warnings.filterwarnings("ignore", message=".*not writable")
            tensor = _tensor(array, kind)
        keys = keys_of(op)
        path = self.names.path(keys[-1] if keys else "constant", leaf=True)
        grid = self._grid(op.result) if self.trainable else None
        in_tables = all(
            isinstance(use.operation, TableOp) and use.index == 1 for use in op.result.uses
        )
        rounds = grid is not None and not in_tables
        if rounds:
            assert grid is not None
            tensor = grid.dequantize(tensor)
        trains = self.trainable and tensor.is_floating_point() and _is_weight(op)
        self._place(path, Parameter(tensor.clone()) if trains else tensor)
        node = self.graph.get_attr(path)
        node.meta = {KEYS: keys, TYPES: [op.result.type]}
        if rounds and grid is not None and trains and grid.qparams.storage.width <= _WIDEST:
            layer = casts.Quantize(grid, Rounding.HALF_EVEN, trainable=True)
            node = self._call(f"{path}_on_grid", layer, [node], (), [op.result.type])
        self.values[op.result] = node

    # -- the tree of modules --------------------------------------------------------

    def _call(
        self,
        name: str,
        layer: Module,
        operands: Sequence[fx.Node],
        keys: Sequence[str],
        kinds: Sequence[Attribute],
    ) -> fx.Node:
        path = self.names.path(name)
        self._place(path, layer)
        node = self.graph.call_module(path, tuple(operands))
        node.meta = {KEYS: tuple(keys), TYPES: list(kinds)}
        return node

    def _place(self, path: str, value: Module | Tensor) -> None:
        """Put a submodule, a buffer or a parameter at a path, with modules on the way."""
        *parents, last = path.split(".")
        module = self.root
        for part in parents:
            inner = module.get_submodule(part) if part in dict(module.named_children()) else None
            if inner is None:
                inner = Module()
                module.add_module(part, inner)
            module = inner
        if isinstance(value, Parameter):
            module.register_parameter(last, value)
        elif isinstance(value, Tensor):
            module.register_buffer(last, value)
        else:
            for name, child in dict(module.named_children()).items():
                if name == last:  # modules were put below it before
                    for inner_name, inner in child.named_children():
                        value.add_module(inner_name, inner)
                    for inner_name, buffer in child.named_buffers(recurse=False):
                        value.register_buffer(inner_name, buffer)
                    for inner_name, weight in child.named_parameters(recurse=False):
                        value.register_parameter(inner_name, weight)
            module.add_module(last, value)

    def _placed(self, op: Operation) -> Any:
        return _Placed(op)


class _Placed:
    """Errors without a place are placed at an op."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, QError):
            error.where = error.where or place(self.op)


class Identity(Module):
    """A cast that changes no number."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, value: Tensor) -> Tensor:
        """The value in its float type."""
        return value.to(self.kind)


def _item(values: Sequence[Tensor], index: int) -> Tensor:
    return values[index]


def place(op: Operation) -> Where:
    """Where an op is: in its file, or its key or name."""
    return op_where(op) or Where(node=op.name)


def unsupported(op: Operation) -> UnsupportedError:
    """An op that has no form in torch."""
    if not isinstance(op, KeptOp):
        return UnsupportedError(f"'{op.name}' has no form in PyTorch", where=place(op))
    return UnsupportedError(
        f"the {op.format} op '{op.kind}' has no form in PyTorch",
        where=place(op),
        notes=("known shapes (--dim) and fold-constants leave fewer such ops",),
    )


def extents(value: SSAValue) -> tuple[int | None, ...] | None:
    """The extents of a value, None where unknown; None if not even their number is known."""
    if isinstance(value.type, UnrankedTensorType):
        return None
    return tuple(None if n < 0 else n for n in shape_of(value))


def properties_of(op: NNOp) -> Properties:
    """The properties of an op as Python values, and what its results are."""
    from qdialect.ir.ops.recurrent import RecurrentOp

    values = dict(op.values)
    if isinstance(op, RecurrentOp):
        values["lengths"] = op.operand_named("lengths") is not None
    kinds = tuple(inner_dtype(result.type) for result in op.results)
    return Properties(values, tuple(extents(result) or () for result in op.results), kinds)


def computes_in_floats(op: NNOp, row: Row, mixes: bool) -> bool:
    """Whether the module's arithmetic makes `op` dequantize, a float op and quantize."""
    if is_kernel(op) or arithmetic_of(op).floats("f32") is None:
        return False
    if any(quant_element(result.type) is None for result in op.results):
        return False
    elements = [quant_element(v.type) for v in (*op.operands, *op.results)]
    if any(e is not None and e.qparams.storage.width > _WIDEST for e in elements):
        return False
    return row.codes is None or mixes or isinstance(op, ClipOp)


def _is_weight(op: ConstantOp) -> bool:
    """Whether training changes a constant: not single numbers, and not statistics."""
    statistics = all(
        isinstance(use.operation, BatchNormOp) and use.index >= _MEAN for use in op.result.uses
    )
    return prod(shape_of(op.result)) > 1 and not statistics


def _known(op: Operation, grid: Grid | None) -> Grid:
    if grid is None:
        raise UnsupportedError(f"'{op.name}' needs known quantization parameters")
    return grid


def _width(kind: Attribute) -> int | None:
    element = quant_element(kind)
    if element is not None:
        return element.qparams.storage.width
    width: Any = getattr(kind, "width", None)
    return getattr(width, "data", None)


def _tensor(array: np.ndarray[Any, Any], kind: torch.dtype) -> Tensor:
    """An array as a tensor; of its memory, where torch has the type."""
    if kind is torch.bfloat16:
        return from_array(array.view(np.int16)).view(torch.bfloat16)
    tensor = from_array(array)
    return tensor if tensor.dtype == kind else tensor.to(kind)


# Ops of PyTorch that were kept as they are, as layers.


class Operand(NamedTuple):
    """In the place of an operand, among arguments."""

    number: int


class TorchNode(Module):
    """One op of PyTorch: the function and its arguments by name, `Operand` for tensors."""

    def __init__(
        self, target: str, function: Any, arguments: Mapping[str, Any], kinds: Sequence[torch.dtype]
    ) -> None:
        super().__init__()
        self.target, self.function, self.kinds = target, function, tuple(kinds)
        self.arguments = dict(arguments)

    def extra_repr(self) -> str:
        """The name of the op."""
        return self.target

    def forward(self, *values: Tensor) -> Results:
        """The results of the op, those of lists one after the other."""
        given = {name: _filled(value, values) for name, value in self.arguments.items()}
        found = flattened(self.function(**given))
        parts = [part.to(kind) for part, kind in zip(found, self.kinds, strict=True)]
        return parts[0] if len(parts) == 1 else tuple(parts)


def _filled(argument: Any, values: Sequence[Tensor]) -> Any:
    if isinstance(argument, Operand):
        return values[argument.number]
    if isinstance(argument, list):
        return [_filled(inner, values) for inner in cast("list[Any]", argument)]
    return argument


def torch_layer(op: TorchNodeOp) -> TorchNode:
    """The layer of an op of PyTorch; QError (`cannot-evaluate`) for one that is not run."""
    operands = [Operand(number) for number in range(len(op.operands))]
    arguments = {name: argument_of(v, operands) for name, v in op.arguments.data.items()}
    kinds = [inner_dtype(result.type) for result in op.results]
    return TorchNode(op.target.data, overload_of(op), arguments, kinds)


# Names in a torch module: the stable keys of the ops, as paths of submodules.
#
# `features.0/conv` becomes `features.0_conv`: dots stay, what Python takes in no name becomes `_`.

_ATTRIBUTES = frozenset(dir(Module()))


class Names:
    """Paths that are in use; each is given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        #: paths that something is below of, and those that nothing can be below of
        self._parents: set[str] = set()
        self._leaves: set[str] = set()

    def path(self, text: str, *, leaf: bool = False) -> str:
        """A path for what is named `text`; nothing is put below a `leaf`."""
        parts = [_part(part) for part in text.split(".") if part] or ["value"]
        for depth in range(1, len(parts)):
            while ".".join(parts[:depth]) in self._leaves:
                parts[depth - 1] += "_"
        wished = ".".join(parts)
        path, number = wished, 1
        while path in self._taken or (leaf and path in self._parents):
            number += 1
            path = f"{wished}_{number}"
        self._taken.add(path)
        self._parents.update(".".join(parts[:depth]) for depth in range(1, len(parts)))
        if leaf:
            self._leaves.add(path)
        return path


def identifier(text: str) -> str:
    """A name of a parameter of `forward`."""
    name = re.sub(r"\W", "_", text)
    return name if name.isidentifier() else f"_{name}"


def _part(text: str) -> str:
    part = re.sub(r"\W", "_", re.sub(r"^\W+|\W+$", "", text)) or "_"
    return f"{part}_" if part in _ATTRIBUTES else part


# One layer of a module for each op: codes or floats in, codes or floats out.
#
#     on codes      the op moves stored integers, or tells their order
#     in floats     dequantize, a float op, quantize: as an ONNX or a PyTorch model says it
#     in the reals  exact sums and products, rounded once
#     trainable     all values are floats, and quantizing is rounding to the grid
#
# Layers hold no weights: those are operands.

_NARROW = (torch.float16, torch.bfloat16)


class Layer(Module):
    """An op: its row, properties, and the grids of its operands and results."""

    def __init__(
        self,
        op: str,
        row: Row,
        properties: Properties,
        operands: Sequence[Grid | None],
        results: Sequence[Grid | None],
        rounding: Rounding,
    ) -> None:
        super().__init__()
        self.op, self.row, self.properties, self.rounding = op, row, properties, rounding
        self._counts = len(operands), len(results)
        self.operand_grids, self.result_grids = _numbered(operands), _numbered(results)

    def extra_repr(self) -> str:
        """The op's name and properties."""
        shown = {n: v for n, v in self.properties.values.items() if n != "rounding"}
        return ", ".join([self.op, *(f"{name}={value}" for name, value in shown.items())])

    def grids_of_operands(self) -> list[Grid | None]:
        """The grid of each operand, None of what is not quantized."""
        return _listed(self.operand_grids, self._counts[0])

    def grids_of_results(self) -> list[Grid | None]:
        """The grid of each result, None of what is not quantized."""
        return _listed(self.result_grids, self._counts[1])

    def on_floats(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The function on floats; narrow ones in f32."""
        if self.row.wide:
            values = [v.float() if v.dtype in _NARROW else v for v in values]
        return as_list(self.row.floats(self.properties, *values))

    def finished(self, results: Sequence[Tensor]) -> Results:
        """Results that are not quantized in their type; one alone, several as a tuple."""
        grids = self.grids_of_results()
        found = [
            value.to(kind) if grid is None else value
            for value, grid, kind in zip(results, grids, self.properties.kinds, strict=True)
        ]
        return found[0] if len(found) == 1 else tuple(found)


def _numbered(grids: Sequence[Grid | None]) -> ModuleDict:
    return ModuleDict({str(n): grid for n, grid in enumerate(grids) if grid is not None})


def _listed(grids: ModuleDict, count: int) -> list[Grid | None]:
    known = dict(grids.items())
    found = (known.get(str(n)) for n in range(count))
    return [grid if isinstance(grid, Grid) else None for grid in found]


class PlainLayer(Layer):
    """Nothing is quantized."""

    def forward(self, *values: Tensor) -> Results:
        """The function on floats or integers."""
        return self.finished(self.on_floats(values))


class CodesLayer(Layer):
    """Stored integers are moved or compared."""

    def forward(self, *values: Tensor) -> Results:
        """The function on codes."""
        assert self.row.codes is not None
        grids = [*self.grids_of_operands(), *self.grids_of_results()]
        return self.finished(as_list(self.row.codes(self.properties, grids, *values)))


class FloatsLayer(Layer):
    """Dequantize, op, quantize.

    Sums of products are taken in doubles and rounded once to f32: the same on every machine.
    """

    def forward(self, *values: Tensor) -> Results:
        """Codes of the results."""
        grids = self.grids_of_operands()
        floats = [
            value if grid is None else grid.dequantize(value)
            for value, grid in zip(values, grids, strict=True)
        ]
        results = [
            value if grid is None else grid.quantize(value, self.rounding)
            for value, grid in zip(self.on_floats(floats), self.grids_of_results(), strict=True)
        ]
        return self.finished(results)


class SummedLayer(FloatsLayer):
    """A layer in floats whose sums are taken in doubles."""

    def on_floats(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The function in doubles, rounded to f32."""
        kind = torch.promote_types(values[0].dtype, torch.float32)
        doubles = [value.double() for value in values]
        return [value.to(kind) for value in as_list(self.row.floats(self.properties, *doubles))]


class RealsLayer(Layer):
    """The op in real arithmetic, rounded once."""

    def forward(self, *values: Tensor) -> Results:
        """Codes, or the nearest floats."""
        numbers = [
            _number(value, grid)
            for value, grid in zip(values, self.grids_of_operands(), strict=True)
        ]
        if self.row.numbers is not None:
            reals = [self.row.numbers(self.properties, *numbers)]
        else:
            doubles = [
                n.approximate if v.is_floating_point() or n.grid else v
                for n, v in zip(numbers, values, strict=True)
            ]
            reals = [Exact.of(v) for v in as_list(self.row.floats(self.properties, *doubles))]
        kinds, grids = self.properties.kinds, self.grids_of_results()
        results = [
            self._stored(real, grid, kind)
            for real, grid, kind in zip(reals, grids, kinds, strict=True)
        ]
        return self.finished(results)

    def _stored(self, real: Exact | Tensor, grid: Grid | None, kind: torch.dtype) -> Tensor:
        if isinstance(real, Tensor):
            return real
        return real.to_float(kind) if grid is None else grid.store(real, self.rounding)


class TrainableLayer(Layer):
    """All values are floats; those of quantized types are numbers of the grid."""

    def forward(self, *values: Tensor) -> Results:
        """Floats, on the grid of each result."""
        results = self.on_floats(values)
        if not self.row.moves:
            results = [
                value if grid is None else grid.fake_quantize(value, self.rounding)
                for value, grid in zip(results, self.grids_of_results(), strict=True)
            ]
        return self.finished(results)


class TrainableTable(TrainableLayer):
    """A lookup: its gradient is the slope between the entries around."""

    def forward(self, *values: Tensor) -> Results:
        """The entries, as numbers."""
        x, entries = values
        source, _ = self.grids_of_operands()
        (target,) = self.grids_of_results()
        assert source is not None
        places = source.quantize(x.detach()).to(torch.int64) - source.qparams.storage.full_range[0]
        numbers = entries.reshape(-1)
        if target is not None:
            numbers = target.dequantize(numbers) if target.is_per_tensor else numbers
        after = (places + 1).clamp(max=numbers.numel() - 1)
        before = (places - 1).clamp(min=0)
        scales = source.scales(x.shape).to(x.dtype)
        slope = (numbers[after] - numbers[before]) / ((after - before) * scales)
        return self.finished([numbers[places] + slope * (x - x.detach())])


def _number(value: Tensor, grid: Grid | None) -> Number:
    if grid is None:
        one = torch.ones((1,) * value.dim(), dtype=torch.float64, device=value.device)
        return Number(value.to(torch.float64), one)
    return Number(grid.offsets(value), grid.scales(value.shape), grid)


def as_list(results: Results) -> list[Tensor]:
    """One result or several, as a list."""
    return [results] if isinstance(results, Tensor) else list(results)
