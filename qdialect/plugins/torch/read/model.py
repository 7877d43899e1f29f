"""Building a module from an exported program: one function, names as attributes.

The walk takes the nodes in order; `table.py` says which import function builds the ops of a
node.  Inputs that nothing reads (the float weights of a converted program) are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import InputError
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
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import ARITHMETIC_KEY, IN_FLOATS, quant_element
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.onnx.dialect import MODEL, NodeOp
from qdialect.plugins.torch.dialect import TorchNodeOp, ValueAttr
from qdialect.plugins.torch.functional import MALFORMED, functional
from qdialect.plugins.torch.program import (
    ELEMENT_TYPES,
    ElementType,
    Input,
    Node,
    Other,
    Output,
    Program,
    Ref,
    Subgraph,
    Weight,
)
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.importer import Importer
from qdialect.plugins.torch.read.rows import Results, references, tensors
from qdialect.plugins.torch.read.table import NOTHING, rule_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

OPSET = 23
"""The opset in which nodes of ONNX are written that stand for functions `nn` has no op for."""


def import_program(program: Program, ctx: QContext, *, keep: bool = False) -> ModuleOp:
    """The module of an exported program; weights go to `ctx.blobs`.

    What we know becomes `nn` and `quant` ops, what ONNX knows an `onnx.node`, every other node a
    `torch.node`; with `keep` all do.  Raises InputError (`invalid-torch`, `unsupported`,
    `bad-qparams`) with the line of the model, or the module and the node.
    """
    try:
        return _Walk(ctx, functional(program), keep).run()
    except MALFORMED as error:
        reason = f"malformed program: {error!r}"
        raise InputError(reason, where=program.where(), code="invalid-torch") from None


class _Walk:
    """The walk over the nodes of one program."""

    def __init__(self, ctx: QContext, program: Program, keep: bool) -> None:
        self._program, self._keep = program, keep
        self._imp = Importer(ctx, program)
        self._keys: set[str] = set()
        counts: dict[str, int] = {}
        for node in program.graph.nodes:
            counts[node.module] = counts.get(node.module, 0) + 1
        #: modules that one node comes from have their names for it
        self._single = {module for module, count in counts.items() if module and count == 1}

    def run(self) -> ModuleOp:
        """The module."""
        imp, program = self._imp, self._program
        arguments = self._inputs()
        imp.block = Block(arg_types=[imp.type(entry.name) for entry in arguments])
        for entry, argument in zip(arguments, imp.block.args, strict=True):
            imp.values[entry.name] = argument
            imp.state(argument, imp.shape(entry.name))
        for node in program.graph.nodes:
            if node.op not in NOTHING:
                self._import_node(node)
        outputs = self._outputs()
        imp.node = None
        results = [self._result(output) for output in outputs]
        imp.block.add_op(ReturnOp(*results))
        self._drop_unread()
        return self._module(arguments, outputs, results)

    def _outputs(self) -> list[Output]:
        """The outputs: what the model gives, and behind it what it writes."""
        found = [o for o in self._program.outputs if o.kind != "other" and o.value is not None]
        return sorted(found, key=lambda output: output.kind != "output")

    def _inputs(self) -> list[Input]:
        """The inputs of the function; tensors of the program are known to the importer."""
        imp, program = self._imp, self._program
        read = {name for node in program.graph.nodes for name in tensors(node)}
        read |= {o.value.name for o in program.outputs if isinstance(o.value, Ref)}
        imp.read = read
        names = weight_names(program)
        arguments: list[Input] = []
        for entry in program.inputs:
            if entry.kind == "input":
                if entry.name in imp.numbers:
                    raise imp.unsupported(f"the input '{entry.name}' is a number, not a tensor")
                arguments.append(entry)
            elif entry.kind == "other" and entry.name in read:
                raise imp.unsupported(
                    f"the input '{entry.name}' is a custom object, which is not supported"
                )
            elif entry.kind in ("parameter", "buffer", "constant") and entry.name in read:
                if entry.target not in program.weights:
                    raise imp.invalid(f"the tensor '{entry.target}' is not in the program")
                imp.weights[entry.name] = program.weights[entry.target]
                imp.paths[entry.name] = names.get(entry.name, entry.target)
                if entry.kind == "parameter":
                    imp.parameters.add(entry.name)
        return arguments

    def _import_node(self, node: Node) -> None:
        """Build the ops of a node by its row; a `torch.node` where that has none."""
        imp = self._imp
        imp.begin(node)
        try:
            if fold(imp, node):
                return
            results = None if self._keep else self._of_row(node)
            if results is None:
                imp.take_back()
                results = keep(imp, node)
        except VerifyException as error:
            raise imp.invalid(str(error)) from None
        except (
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            ValueError,
            OverflowError,
        ) as error:
            raise imp.invalid(f"'{node.target}' has arguments of another form: {error}") from None
        self._finish(node, results)

    def _of_row(self, node: Node) -> Results:
        """What the row of an op makes of a node; None without a row, where `nn` has no op of
        these shapes, or where somebody reads a result that the row does not give."""
        rule = rule_of(node.target)
        try:
            results = None if rule is None else rule(self._imp, node)
        except VerifyException:
            return None
        if results is None:
            return None
        given = [*results, *[None] * len(node.names)]
        absent = [n for n, value in zip(node.names, given, strict=False) if value is None]
        return None if self._imp.read.intersection(n for n in absent if n) else results

    def _finish(self, node: Node, results: Results) -> None:
        """Give results their names, shapes and keys."""
        imp = self._imp
        names = node.names
        key = self._key(node)
        location = imp.location(key)
        for op in imp.emitted:
            op.location = location
        values = list(results or ())
        for name, value in zip(names, values, strict=False):
            if name is None or value is None:
                continue
            if name in imp.program.graph.tensors:
                expected = imp.element(name)
                found = value.type.element_type  # pyright: ignore
                if quant_element(value.type) is None and found != expected:
                    raise imp.invalid(f"gives {found}, but the program says {expected}")
                imp.state(value, imp.shape(name))
            imp.values[name] = value
        first = next((value for value in values if value is not None), None)
        if first is None or not isinstance(first.owner, Operation):
            return
        owner = first.owner
        if owner in imp.emitted and KEY not in owner.attributes:
            owner.attributes[KEY] = string(key)
            if len(owner.results) > 1:
                owner.attributes[OUTPUTS] = strings(derived_outputs(key, len(owner.results)))

    def _key(self, node: Node) -> str:
        """The path of the module, if this is its one node, else path and name; unique."""
        if node.module in self._single:
            key = node.module
        else:
            key = f"{node.module}.{node.name}" if node.module else node.name
        while key in self._keys:
            key += "_"
        self._keys.add(key)
        return key

    def _result(self, output: Output) -> SSAValue:
        if isinstance(output.value, Ref | int | float):
            return self._imp.value(output.value)
        raise self._imp.unsupported("an output of the program is neither a tensor nor a number")

    def _drop_unread(self) -> None:
        """Erase constants and nodes of sizes that nothing reads in the end."""
        for op in reversed(list(self._imp.block.ops)):
            if op.results and all(result.first_use is None for result in op.results):
                op.detach()
                op.erase()

    # -- module and function --------------------------------------------------------

    def _module(
        self, arguments: Sequence[Input], outputs: Sequence[Output], results: Sequence[SSAValue]
    ) -> ModuleOp:
        imp = self._imp
        block = imp.block
        entries = [
            DictionaryAttr(_named(entry.target, imp.extents(argument)))
            for entry, argument in zip(arguments, block.args, strict=True)
        ]
        function = FuncOp(
            "main",
            ([a.type for a in block.args], [r.type for r in results]),
            Region(block),
            arg_attrs=ArrayAttr(entries),
        )
        function.attributes[RESULT_NAMES] = strings(self._output_names(outputs))
        function.attributes[GRAPH_NAME] = StringAttr("main")
        dims = [_dims(imp.extents(result)) for result in results]
        if any(entry is not None for entry in dims):
            function.attributes[DIMS] = ArrayAttr([d or ArrayAttr(()) for d in dims])
        model: dict[str, Attribute] = {}
        if any(isinstance(op, NodeOp) for op in block.ops):
            model["opset"] = DictionaryAttr({"ai.onnx": IntegerAttr(OPSET, i64)})
        module = ModuleOp([function], {MODEL: DictionaryAttr(model), ARITHMETIC_KEY: IN_FLOATS})
        if self._program.file:
            module.location = FileLineColLoc(string(self._program.file), IntAttr(0), IntAttr(0))
        return module

    def _output_names(self, outputs: Sequence[Output]) -> list[str]:
        taken: set[str] = {entry.target for entry in self._program.inputs if entry.kind == "input"}
        names: list[str] = []
        for index, output in enumerate(outputs):
            value: Any = output.value
            name = output.target or (value.name if isinstance(value, Ref) else f"output_{index}")
            while name in taken:
                name += "_out"
            taken.add(name)
            names.append(name)
        return names


def _named(name: str, extents: Sequence[Extent]) -> dict[str, Attribute]:
    dims = _dims(extents)
    entry: dict[str, Attribute] = {ARG_NAME: StringAttr(name)}
    return entry if dims is None else {**entry, DIMS: dims}


def _dims(extents: Sequence[Extent]) -> ArrayAttr[Attribute] | None:
    """Numbers and the names of symbols; None where all are numbers."""
    if all(extent.number is not None for extent in extents):
        return None
    entries: list[Attribute] = []
    for extent in extents:
        text = str(extent)
        if extent.number is not None:
            entries.append(IntegerAttr(extent.number, i64))
        elif text.startswith("1*@") and "+" not in text and text.count("*") == 1:
            entries.append(StringAttr(text.removeprefix("1*@")))
        else:
            entries.append(IntegerAttr(-1, i64))
    return ArrayAttr(entries)


# What weights of a converted program are called.
#
# `convert_pt2e` moves quantized weights to the outermost module, as `_frozen_param0`.  Users know
# the module that reads them:
#
#     dequantize_per_channel(_frozen_param0, ...) -> conv2d in features.0     features.0.weight

_FROZEN = re.compile(r"_frozen_param\d+")


def weight_names(program: Program) -> Mapping[str, str]:
    """Names by those in the graph, of frozen weights that one module reads; each name once."""
    frozen = {
        entry.name
        for entry in program.inputs
        if isinstance(entry.target, str) and _FROZEN.fullmatch(entry.target)
    }
    found: dict[str, set[str]] = {}
    #: what is dequantized of a weight, by the name of the result
    origin: dict[str, str] = {}
    for node in program.graph.nodes:
        for name in tensors(node):
            if name in frozen:
                origin |= {result: name for result in node.results if isinstance(result, str)}
            elif name in origin and node.module:
                found.setdefault(origin[name], set()).add(f"{node.module}.weight")
    single = {name: paths.pop() for name, paths in found.items() if len(paths) == 1}
    read = {name for node in program.graph.nodes for name in tensors(node)}
    taken = {str(entry.target) for entry in program.inputs if entry.name in read}
    paths = list(single.values())
    return {n: p for n, p in single.items() if paths.count(p) == 1 and p not in taken}


# What is computed when the program is read: tensors made of numbers, and views of constants.
#
#     arange(4) -> view [4, 1] -> le with arange(4) -> a mask, which is a constant of the module
#
# Parameters are left as they are: their names are the model's.

_MOST = 1 << 20
"""Elements of a tensor that is computed when the program is read."""

_UNIFORM = 1 << 12
"""Elements of a constant that has one number everywhere; larger ones are expanded by the run."""

_NO_ARITHMETIC = frozenset({"bf16", "f8E4M3FN", "f8E5M2"})
"""Types that numpy has the bits of only."""


def fold(imp: Importer, node: Node) -> bool:
    """Whether the result of the node is known now; then it is among `imp.weights`."""
    function = _FUNCTIONS.get(node.op)
    if function is None or len(node.results) != 1 or not isinstance(node.results[0], str):
        return False
    name = node.results[0]
    kind = imp.program.graph.tensors.get(name)
    if kind is None or kind.code not in ELEMENT_TYPES:
        return False
    shape = static(kind.shape)
    size = 1
    for n in shape:
        size *= n
    if DYNAMIC in shape or size > _MOST or not _is_known(imp, node):
        return False
    if _has_bits(imp, node, kind.code) and node.op not in _VIEWS:
        return False
    array = function(_Arguments(imp, node), shape)
    if array is None or array.shape != shape:
        return False
    if size > _UNIFORM and not any(array.strides):
        return False
    imp.weights[name] = Weight(kind.code, _converted(array, ELEMENT_TYPES[kind.code]))
    return True


def _is_known(imp: Importer, node: Node) -> bool:
    for key, argument in node.arguments.items():
        if key == "self" and node.op in _LIKE:
            continue
        for name in references(argument):
            if name in imp.weights:
                if name in imp.parameters and node.op not in _IDENTITIES:
                    return False
            elif name not in imp.numbers or imp.numbers[name].number is None:
                return False
    return True


def _has_bits(imp: Importer, node: Node, code: int) -> bool:
    names = [name for argument in node.arguments.values() for name in references(argument)]
    codes = [imp.weights[name].code for name in names if name in imp.weights]
    return any(ELEMENT_TYPES.get(c, "") in _NO_ARITHMETIC for c in (*codes, code))


def _converted(array: NDArray[Any], element: str) -> NDArray[Any]:
    import numpy as np

    if element in _NO_ARITHMETIC:
        return array
    kinds = {"i1": "?", "complex<f32>": "c8", "complex<f64>": "c16"}
    width = element.lstrip("uif")
    name = kinds.get(element) or f"{element[0]}{int(width) // 8}"
    with np.errstate(all="ignore"):
        return array.astype(np.dtype(name), copy=False)


class _Arguments:
    """The arguments of a node as numpy takes them."""

    def __init__(self, imp: Importer, node: Node) -> None:
        self._imp = imp
        self._node = node

    def __call__(self, name: str, default: Any = None) -> Any:
        """An argument: an array, a number, or a list of numbers."""
        value = self._node.arguments.get(name, default)
        if isinstance(value, Ref):
            known = self._imp.weights.get(value.name)
            return known.array if known is not None else self._imp.integer(value)
        if isinstance(value, list):
            return [self._imp.integer(v) if isinstance(v, Ref) else v for v in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    def operands(self) -> list[Any]:
        """`self` and `other`, in the type that PyTorch computes in."""
        import numpy as np

        from qdialect.ir.ops.constants import element_name
        from qdialect.plugins.torch.read.promotion import common_element

        given = [self._node.arguments[name] for name in ("self", "other")]
        name = element_name(common_element(self._imp, given))
        return [_converted(np.asarray(self(n)), name) for n in ("self", "other")]


Shape = tuple[int, ...]
Function = Callable[[_Arguments, Shape], "NDArray[Any] | None"]


def _full(value: float | None = None) -> Function:
    def function(a: _Arguments, shape: Shape) -> NDArray[Any]:
        import numpy as np

        number = value if value is not None else a("fill_value", a("value", a("s")))
        return np.broadcast_to(np.array(number), shape)

    return function


def _arange(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    start, step = a("start", 0), a("step", 1)
    return start + step * np.arange(shape[0])


def _linspace(a: _Arguments, shape: Shape) -> NDArray[Any] | None:
    """As PyTorch computes it: from the start in the first half, from the end in the second."""
    import numpy as np

    start, end, steps = a("start"), a("end"), shape[0]
    if isinstance(start, np.ndarray) or isinstance(end, np.ndarray) or steps < 2:
        return None
    step, k = np.float32((end - start) / (steps - 1)), np.arange(steps)
    up = np.float32(start) + step * k.astype(np.float32)
    down = np.float32(end) - step * (steps - 1 - k).astype(np.float32)
    return np.where(k < steps // 2, up, down)


def _eye(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    return np.eye(shape[0], shape[1])


def _reshaped(a: _Arguments, shape: Shape) -> NDArray[Any]:
    return a("self").reshape(shape)


def _expanded(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    return np.broadcast_to(a("self"), shape)


def _permuted(a: _Arguments, shape: Shape) -> NDArray[Any]:
    return a("self").transpose(a("dims"))


def _transposed(a: _Arguments, shape: Shape) -> NDArray[Any]:
    array = a("self")
    return array.swapaxes(a("dim0", 0), a("dim1", 1)) if array.ndim > 1 else array


def _same(a: _Arguments, shape: Shape) -> NDArray[Any]:
    return a("self")


def _binary(name: str) -> Function:
    def function(a: _Arguments, shape: Shape) -> NDArray[Any] | None:
        import numpy as np

        if a("alpha", 1) != 1 or a("rounding_mode") is not None:
            return None
        x, y = a.operands()
        if name in ("add", "subtract", "true_divide") and x.dtype.kind in "bc":
            return None
        if name == "true_divide" and x.dtype.kind != "f":
            x, y = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            return getattr(np, name)(x, y)

    return function


def _select(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    return np.take(a("self"), a("index"), a("dim", 0))


def _slice(a: _Arguments, shape: Shape) -> NDArray[Any]:
    array, d = a("self"), a("dim", 0)
    places = [slice(None)] * array.ndim
    places[d] = slice(a("start") or 0, a("end"), a("step", 1))
    return array[tuple(places)]


_VIEWS: Mapping[str, Function] = {
    **dict.fromkeys(
        (
            f"aten.{name}"
            for name in (
                "view",
                "reshape",
                "flatten",
                "unflatten",
                "squeeze",
                "unsqueeze",
                "_unsafe_view",
                "view_copy",
                "unsqueeze_copy",
            )
        ),
        _reshaped,
    ),
    "aten.expand": _expanded,
    "aten.permute": _permuted,
    "aten.transpose": _transposed,
    "aten.t": _transposed,
    "aten.select": _select,
    "aten.slice": _slice,
}

_IDENTITIES: Mapping[str, Function] = dict.fromkeys(
    (
        f"aten.{name}"
        for name in ("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "lift", "to")
    ),
    _same,
)

_LIKE = frozenset(
    f"aten.{name}"
    for kind in ("full", "zeros", "ones", "empty")
    for name in (f"{kind}_like", f"new_{kind}")
) | {"aten.fill", "aten.zero"}
"""Ops that read no element of `self`."""

_FUNCTIONS: Mapping[str, Function] = {
    **_VIEWS,
    **_IDENTITIES,
    "aten._to_copy": _same,
    "aten.type_as": _same,
    "aten.arange": _arange,
    "aten.eye": _eye,
    "aten.linspace": _linspace,
    **dict.fromkeys(("aten.full", "aten.full_like", "aten.new_full", "aten.fill"), _full()),
    "aten.scalar_tensor": _full(),
    **dict.fromkeys(("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero"), _full(0)),
    **dict.fromkeys(("aten.ones", "aten.ones_like", "aten.new_ones"), _full(1)),
    **dict.fromkeys(("aten.empty", "aten.empty_like", "aten.new_empty"), _full(0)),
    "aten.add": _binary("add"),
    "aten.sub": _binary("subtract"),
    "aten.mul": _binary("multiply"),
    "aten.div": _binary("true_divide"),
    "aten.eq": _binary("equal"),
    "aten.ne": _binary("not_equal"),
    "aten.lt": _binary("less"),
    "aten.le": _binary("less_equal"),
    "aten.gt": _binary("greater"),
    "aten.ge": _binary("greater_equal"),
    "aten.logical_and": _binary("logical_and"),
    "aten.bitwise_and": _binary("bitwise_and"),
}


# What is kept of a program without being understood: `torch.node`.

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")


def keep(imp: Importer, node: Node) -> Results:
    """The node as it is.

    InputError (`unsupported`) for one with graphs of its own, without tensors as results, or with
    sizes among its arguments that only the run tells.
    """
    results = node.names
    if all(name is None or name in imp.numbers for name in results):
        return [None] * len(results)
    if any(isinstance(value, Subgraph) for value in node.arguments.values()):
        raise imp.unsupported(
            f"'{node.target}' is control flow that depends on data, which is not supported"
        )
    if _TARGET.fullmatch(node.target) is None:
        raise imp.invalid(f"'{node.target}' is no name of an op")
    operands: list[SSAValue] = []
    arguments = {
        name: _attribute(imp, node, value, operands)
        for name, value in node.arguments.items()
        if not isinstance(value, Other)
    }
    names = [name for name in results if name is not None and name in imp.program.graph.tensors]
    if len(names) != len([name for name in results if name is not None]):
        raise imp.unsupported(f"'{node.target}' gives something that is no tensor")
    op = TorchNodeOp(node.target, operands, [imp.type(name) for name in names], arguments)
    values = iter(imp.emit(op).results)
    return [None if name is None else next(values) for name in results]


def _attribute(imp: Importer, node: Node, value: Any, operands: list[SSAValue]) -> Attribute:
    """An argument as an attribute; tensors join the operands."""
    if isinstance(value, Ref) and (extent := imp.numbers.get(value.name)) is not None:
        if extent.number is None:
            raise imp.unsupported(f"'{node.target}' takes a size that only the run tells")
        return IntegerAttr(extent.number, i64)
    if isinstance(value, Ref):
        operand = imp.plain(imp.value(value))
        if operand not in operands:
            operands.append(operand)
        return ValueAttr(operands.index(operand))
    if value is None:
        return UnitAttr()
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, ElementType):
        return imp.element_of(value)
    if isinstance(value, list):
        return ArrayAttr([_attribute(imp, node, inner, operands) for inner in value])  # pyright: ignore[reportUnknownVariableType]
    raise imp.unsupported(f"'{node.target}' has an argument that cannot be kept")
