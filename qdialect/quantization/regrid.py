"""Give the values of a quantized module qparams that the target takes.

A model that was quantized for something else has scales and zero points of any kind. Where a
target states domains (`targets.kernels`), its kernels refuse them. This pass reads what each
value's codes stand for as the range of the value, and quantizes to the nearest qparams inside the
domains that cover it, as `apply-profile` does with ranges of a profile; weights that are refused
are rounded again from their numbers. A value whose new codes reach beyond the old ones is clipped
first: saturation may be what computes a ReLU.

Values change by up to a step, so the pass acts at `relaxed` only; below, it says what is refused.
A function that the target takes is left as it is, and one of which an op would be left in floats
that the target does not have.

For example, on a target with scales that are powers of two,

    %1 = quant.qcast %0 : !f to !quant.uniform<i8:f32, 0.3>
    %2 = quant.dcast %1 : !quant.uniform<i8:f32, 0.3> to !f

becomes

    %1 = nn.clip %0 min -38.5 max 38.0 : !f -> !f
    %2 = quant.qcast %1 : !f to !quant.uniform<i8:f32, 0.5>
    %3 = quant.dcast %2 : !quant.uniform<i8:f32, 0.5> to !f
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.behaviors import Behavior, Lookup, PortKind
from qdialect.context import QContext, session
from qdialect.numerics.contract import Contract, Numerics, level_named
from qdialect.numerics.rounding import Rounding
from qdialect.ops import ClipOp, ConstantOp
from qdialect.ops.keys import QPARAMS
from qdialect.profile.ranges import Range, max_of_channels
from qdialect.profile.record import Profile
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, RescaleOp, expressed_type, with_element
from qdialect.quantization.emission import cast_pair, emit
from qdialect.quantization.grids import assign
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.selection import select
from qdialect.quantization.values import Values
from qdialect.rewrite.error_bounds import Change
from qdialect.rewrite.op_numbers import number_ops, numbers_of
from qdialect.rewrite.refused import refused_by_target
from qdialect.rewrite.remarks import Remark, fired_remark, key_text, location_text
from qdialect.rewrite.rewriter import set_type

_CONTRACT = Contract(Numerics.RELAXED, inf, "quantized again, to qparams that the target takes")


@dataclass(frozen=True)
class Regrid(ModulePass):
    """Qparams that the target takes; see the module."""

    name = "regrid"

    numerics: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Quantize again each function with a type that the target refuses."""
        qctx, level = session(ctx), level_named(self.numerics)
        for number, function in enumerate(op.body.block.ops):
            if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
                continue
            refused = list(_refused(function, qctx))
            if level is Numerics.RELAXED and refused:
                found = _newly_refused(op, number, qctx)
                if found is None:
                    _Function(function, qctx).run()
                elif found:
                    qctx.remarks.add(_remark("refused", function, "target", found))
                continue
            for each, reason in refused:
                why = f"{qctx.target.name}: {reason}; needs numerics=relaxed"
                qctx.remarks.add(_remark("refused", each, "numerics", why))


def _newly_refused(module: ModuleOp, number: int, ctx: QContext) -> str | None:
    """Which op of function `number` the target would refuse that stands for none that it refuses
    now, and why; nothing if the function would stay as it is. Found out on a clone."""
    were = [refused_by_target(ctx, op) is not None for op in module.walk()]
    clone, session = module.clone(), ctx.clone()
    number_ops(clone)
    function = list(clone.body.block.ops)[number]
    assert isinstance(function, FuncOp)
    _Function(function, session).run()
    if clone.is_structurally_equivalent(module):
        return ""
    for op in function.walk():
        reason = refused_by_target(session, op)
        if reason and not any(were[n] for n in numbers_of(op.location)):
            return f"{ctx.target.name}: '{op.name}': {reason}"
    return None


def _remark(kind: Literal["refused", "note"], op: Operation, code: str, reason: str) -> Remark:
    name, place = Regrid.name, location_text(op.location)
    return Remark(kind, name, name, place, op.name, key_text(op), code=code, reason=reason)


def _refused(function: FuncOp, ctx: QContext) -> Iterator[tuple[Operation, str]]:
    """The ops with qparams on a port that no kernel takes, and why."""
    target = ctx.target
    for op in function.body.block.ops:
        behavior = ctx.behaviors.get(op)
        if behavior is None:
            continue
        for value, domains in (
            *((v, target.port_domains(op.name, n)) for n, v in enumerate(op.operands)),
            *((v, target.port_domains(op.name, n, result=True)) for n, v in enumerate(op.results)),
        ):
            params = _params(value)
            if params is None or params.storage.width > 16:
                continue
            reasons = [domain.refuses(params) for domain in domains]
            if reasons and None not in reasons:
                yield op, reasons[0] or ""
                break


def _params(value: SSAValue) -> QParams | None:
    """The qparams of a value, or of the codes that its numbers are of or become."""
    owner = value.owner
    if isinstance(owner, DCastOp):
        value = owner.input
    casts = [use.operation for use in value.uses if isinstance(use.operation, QCastOp)]
    return qparams_of(value) or (qparams_of(casts[0].result) if casts else None)


@dataclass
class _Function:
    """One function, first spelled in floats between casts, then without casts, then again."""

    function: FuncOp
    ctx: QContext
    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    #: by clip, the qparams that values had there
    clips: dict[ClipOp, QParams] = field(default_factory=dict[ClipOp, QParams])

    def run(self) -> None:
        block = self.function.body.block
        for op in list(block.ops):
            behavior = self.ctx.behaviors.get(op)
            if isinstance(op, RescaleOp):
                self._rescale_in_floats(op)
            elif behavior is not None and not isinstance(op, ConstantOp):
                self._in_floats(op, behavior)
        for op in list(block.ops):
            if isinstance(op, QCastOp):
                self._without_casts(op)
        for op in block.ops:
            params = qparams_of(op.input) if isinstance(op, DCastOp) else None
            if params is not None and is_integer(params) and params.storage.width <= 16:
                self.ranges.setdefault(op.results[0], _range(params))
        target = self.ctx.target
        recipe = Recipe(target.activations, max_steps=inf, correct_bias=False)
        profile = Profile(digest="", entries={})
        selection = select(Values(self.function, self.ctx, profile, recipe, known=self.ranges))
        grids = assign(selection)
        self.ctx.remarks.add(fired_remark(Regrid.name, Regrid.name, self.function, _CONTRACT))
        number = len(self.ctx.remarks.remarks) - 1
        for op, why in selection.left.items():
            self.ctx.remarks.add(_remark("note", op, why.code, f"left float: {why.reason}"))
        emit(selection, grids)
        for clip, old in self.clips.items():
            params = grids.qparams.get(clip.result)
            if params is None:
                _cast_again(clip, old)
            else:
                _settle_clip(clip, _range(old), params)
        last = block.last_op
        assert isinstance(last, ReturnOp)
        for value in last.operands:
            self.ctx.error_bounds.add(value, (Change(inf, number),))

    def _in_floats(self, op: Operation, behavior: Behavior) -> None:
        """An op on codes is the op on their numbers, quantized; a table is of codes."""
        block = op.parent
        assert block is not None
        if isinstance(behavior, Lookup) or any(
            params is not None and not is_integer(params)
            for params in map(qparams_of, (*op.operands, *op.results))
        ):
            return
        for index, operand in enumerate(op.operands):
            params = qparams_of(operand)
            if params is None or behavior.operand_port(index).kind is PortKind.PLAIN:
                continue
            cast = DCastOp(operand, with_element(operand.type, expressed_type(params)))
            cast.location = op.location
            block.insert_op_before(cast, op)
            op.operands[index] = cast.result
        if "rounding" in op.properties:
            op.properties["rounding"] = StringAttr(Rounding.HALF_EVEN.value)
        op.attributes.pop(QPARAMS, None)
        for result in op.results:
            params, kind = qparams_of(result), result.type
            if params is None:
                continue
            uses = list(result.uses)
            set_type(result, with_element(kind, expressed_type(params)))
            codes = QCastOp(result, kind)
            codes.location = op.location
            block.insert_op_after(codes, op)
            for use in uses:
                use.operation.operands[use.index] = codes.result

    def _rescale_in_floats(self, op: RescaleOp) -> None:
        params, block = qparams_of(op.input), op.parent
        assert params is not None and block is not None
        real = DCastOp(op.input, with_element(op.input.type, expressed_type(params)))
        codes = QCastOp(real.result, op.result.type)
        real.location = codes.location = op.location
        block.insert_ops_before([real, codes], op)
        op.result.replace_all_uses_with(codes.result)
        op.detach()
        op.erase()

    def _without_casts(self, cast: QCastOp) -> None:
        """Take a quantize and the dequantizes of it away; what they stood for is the range of
        the value between, and a clip where that computes something."""
        params = qparams_of(cast.result)
        block, value = cast.parent, cast.input
        assert block is not None
        if params is None or not is_integer(params):
            return
        if params.storage.width <= 16:
            self.ranges.setdefault(value, _range(params))
        reals = [use.operation for use in cast.result.uses if isinstance(use.operation, DCastOp)]
        if reals and params.storage.width <= 16:
            found = _range(params)
            clip = ClipOp(value, min=found.low, max=found.high)
            clip.location = cast.location
            block.insert_op_before(clip, cast)
            self.ranges[clip.result], self.clips[clip] = found, params
            value = clip.result
        for real in reals:
            real.results[0].replace_all_uses_with(value)
            real.detach()
            real.erase()
        if cast.result.first_use is None:
            cast.detach()
            cast.erase()


def _range(params: QParams) -> Range:
    """The numbers that codes stand for."""
    low, high = params.storage.min, params.storage.max
    pairs = zip(params.scale_list(), params.zero_point_list(), strict=True)
    return max_of_channels([Range((low - zero) * s, (high - zero) * s) for s, zero in pairs])


def _cast_again(clip: ClipOp, params: QParams) -> None:
    """Quantize and dequantize a value as before: nothing gives it other codes."""
    value, block = clip.result, clip.parent
    assert block is not None
    codes, real = cast_pair(clip.input, params, clip)
    block.insert_ops_before([codes, real], clip)
    value.replace_all_uses_with(real.result)
    clip.detach()
    clip.erase()


def _settle_clip(clip: ClipOp, found: Range, params: QParams) -> None:
    """Give a clip bounds that are codes of what it is on, and drop those that codes do not
    reach beyond by half a step; with none left the clip goes."""
    (scale,), made = params.scale_list(), _range(params)
    for name, bound, reached in (
        ("min", found.low, found.low - scale / 2 > made.low),
        ("max", found.high, made.high > found.high + scale / 2),
    ):
        if reached:
            clip.properties[name] = FloatAttr(round(bound / scale) * scale, f64)
        else:
            clip.properties.pop(name)
    if not clip.properties:
        clip.result.replace_all_uses_with(clip.input)
        clip.detach()
        clip.erase()
