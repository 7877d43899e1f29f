"""Fold casts at the interface into the signature, on request.

    func @f(%x: float) { %q = quantize %x ... }        ->  func @f(%q: codes)
    func @f(...) { %y = dequantize %q; return %y }     ->  func @f(...) -> codes

Arguments and results are then codes: the caller does what the cast did. The float type
is recorded on the argument or result as `nn.float_type`, with
`nn.rounding` if the quantize did not round half to even. Functions that the module
itself calls are left alone.

With `caches` only the arguments and results change that are caches (`analysis.caches`), both ends
of each or none: what a function gives back is what it takes, so they need one grid.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.rounding import Rounding
from qdialect.analysis.boundary import called_functions
from qdialect.analysis.caches import find_caches, reads_shape
from qdialect.ir.context import QContext, session
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    SCastOp,
    cast_rounding,
    element_type,
    quant_element,
    storage_type,
    with_element,
)
from qdialect.passes.rule_pass import quantized_alike
from qdialect.rewrite.remarks import Kind
from qdialect.rewrite.replacements import Replacements
from qdialect.rewrite.rewriter import erase_op, is_dead, set_type

FLOAT_TYPE = "nn.float_type"
ROUNDING = "nn.rounding"


@dataclass(frozen=True)
class FoldInterface(ModulePass):
    """Quantize into a float argument, dequantize into a result; see the module.

    `arguments` and `results` say which side of the interface to change, `caches` that it is caches
    only.
    """

    name = "fold-interface"

    arguments: bool = True
    results: bool = True
    caches: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        called = called_functions(op)
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            if function.is_declaration:
                continue
            if function.sym_name.data in called:
                _remark(qctx, function, "refused", "called", "the module calls this function")
                continue
            if len(function.body.blocks) > 1:
                _remark(qctx, function, "refused", "control-flow", "several blocks")
                continue
            arguments: Container[int] = range(len(function.body.block.args))
            results: Container[int] = range(len(function.function_type.outputs))
            if self.caches:
                pairs = list(_caches_on_codes(qctx, function))
                arguments, results = ({pair[side] for pair in pairs} for side in (0, 1))
            if self.arguments:
                _fold_arguments(qctx, function, arguments)
            if self.results:
                _fold_results(qctx, function, results)
            function.update_function_type()


def _caches_on_codes(ctx: QContext, function: FuncOp) -> Iterator[tuple[int, int]]:
    """The numbers of argument and result of each cache that both can be codes of one grid."""
    block, last = function.body.block, function.body.block.last_op
    assert isinstance(last, ReturnOp)
    for cache in find_caches(function, ctx)[0]:
        casts, given = _casts_of(block.args[cache.argument]), last.operands[cache.result].owner
        where = f"argument #{cache.argument}, result #{cache.result}"
        if casts is None or not isinstance(given, DCastOp):
            _remark(ctx, function, "refused", "float-cache", f"{where}: not quantized")
        elif element_type(casts[0].result.type) != element_type(given.input.type):
            _remark(ctx, function, "refused", "float-cache", f"{where}: of different qparams")
        else:
            yield cache.argument, cache.result


def _casts_of(argument: SSAValue) -> list[QCastOp] | None:
    """The quantizes of an argument, where it is quantized in one way, and else at most its shape
    is read."""
    casts = [use.operation for use in argument.uses if not reads_shape(use.operation)]
    found = [cast for cast in dict.fromkeys(casts) if isinstance(cast, QCastOp)]
    return found if len(found) == len(set(casts)) and quantized_alike(found) else None


def _fold_arguments(ctx: QContext, function: FuncOp, numbers: Container[int]) -> None:
    entry, replacements = function.body.block, Replacements(ctx)
    notes = _notes(function.arg_attrs, len(entry.args))
    for index, argument in enumerate(entry.args):
        casts = _casts_of(argument) if index in numbers else None
        if casts is None:
            continue
        notes[index][FLOAT_TYPE] = argument.type
        rounding = cast_rounding(casts[0])
        if rounding is not Rounding.HALF_EVEN:
            notes[index][ROUNDING] = StringAttr(rounding.value)
        set_type(argument, casts[0].result.type)
        for cast in casts:
            replacements.replaced(cast.result, argument)
            cast.result.replace_all_uses_with(argument)
            erase_op(cast, ctx)
        _read_shape_of_codes(argument)
        _remark(ctx, function, "fired", "", f"argument #{index} takes codes")
    function.arg_attrs = _packed(notes)


def _read_shape_of_codes(argument: BlockArgument) -> None:
    """Let kept nodes that read the shape of an argument take its codes as integers."""
    uses = [use for use in argument.uses if reads_shape(use.operation)]
    element = quant_element(argument.type)
    if not uses or element is None:
        return
    plain = SCastOp(argument, with_element(argument.type, storage_type(element.qparams)))
    first = argument.block.first_op
    assert first is not None
    argument.block.insert_ops_before([plain], first)
    for use in uses:
        use.operation.operands[use.index] = plain.result


def _fold_results(ctx: QContext, function: FuncOp, numbers: Container[int]) -> None:
    last = function.body.block.last_op
    if not isinstance(last, ReturnOp):
        return
    notes, replacements = _notes(function.res_attrs, len(last.operands)), Replacements(ctx)
    operands: list[SSAValue] = list(last.operands)
    for index, value in enumerate(operands):
        cast = value.owner
        if isinstance(cast, DCastOp) and index in numbers:
            notes[index][FLOAT_TYPE] = value.type
            operands[index] = cast.input
            replacements.replaced(value, cast.input)
            _remark(ctx, function, "fired", "", f"result #{index} gives codes")
    before = list(last.operands)
    last.operands = operands
    for value in dict.fromkeys(before):
        cast = value.owner
        if isinstance(cast, DCastOp) and is_dead(cast):
            erase_op(cast, ctx)
    function.res_attrs = _packed(notes)


def _notes(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    if attributes is None:
        return [{} for _ in range(count)]
    return [dict(entry.data) for entry in attributes]


def _packed(notes: list[dict[str, Attribute]]) -> ArrayAttr[DictionaryAttr] | None:
    return ArrayAttr([DictionaryAttr(note) for note in notes]) if any(notes) else None


def _remark(ctx: QContext, function: FuncOp, kind: Kind, code: str, reason: str) -> None:
    contract = "exact" if kind == "fired" else ""
    name = FoldInterface.name
    ctx.remarks.at(function, kind, name, code, reason, contract=contract)
