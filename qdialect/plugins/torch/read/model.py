"""Building a module from an exported program: one function, names as attributes.

The walk takes the nodes in order; `table.py` says which import function builds the ops of a
node.  Inputs that nothing reads (the float weights of a converted program) are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
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
from qdialect.ir.quant import ARITHMETIC_KEY, IN_FLOATS, quant_element
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.onnx.dialect import MODEL, NodeOp
from qdialect.plugins.torch.functional import MALFORMED, functional
from qdialect.plugins.torch.program import Input, Node, Output, Program, Ref
from qdialect.plugins.torch.read.importer import Importer
from qdialect.plugins.torch.read.kept import keep
from qdialect.plugins.torch.read.known import fold
from qdialect.plugins.torch.read.rows import Results, tensors
from qdialect.plugins.torch.read.table import NOTHING, rule_of
from qdialect.plugins.torch.read.weight_names import weight_names

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
