"""What a chain of affine functions of codes may become: the op after reading its codes on other
qparams (`fold_affine`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import Contract
from qdialect.numerics.rounding import Rounding
from qdialect.ops import AddOp, NegOp, SubOp, shape_of
from qdialect.ops.keys import QPARAMS
from qdialect.passes.constant_scalars import exact_scalar, exact_vector
from qdialect.passes.folding.affine_floats import Rows, fitted, floats_contract
from qdialect.passes.folding.affine_tables import Channel
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp, SCastOp, UniformType, storage_type, with_element


class Form(Enum):
    """What a chain becomes: the op after reading x on other qparams."""

    READ = "quant.scast"
    RESCALE = RescaleOp.name
    ADD = AddOp.name
    NEG = NegOp.name
    SUB = SubOp.name


@dataclass(frozen=True)
class Plan:
    """Read x as `kind`, then do `form` with `offsets`, one or one per index."""

    form: Form
    kind: UniformType
    offsets: tuple[Fraction, ...]
    contract: Contract

    @property
    def middle(self) -> QParams:
        return self.kind.qparams


def made_of(
    plan: Plan, op: Operation, value: SSAValue, rounding: Rounding, session: QContext
) -> list[Operation]:
    """The ops of a plan for the chain from `value` to `op`, in no block yet; the last one gives the
    result, `value` if there is none."""
    made = _reads(value, plan.kind)
    if plan.form is Form.READ:
        return made
    x = made[-1].results[0] if made else value
    kind = op.results[0].type
    # Another op has other pieces.
    attributes = {n: a for n, a in op.attributes.items() if n != QPARAMS}
    if plan.form is Form.RESCALE:
        return [*made, RescaleOp(x, kind, rounding)]
    operands: list[SSAValue] = [x]
    if plan.form is not Form.NEG:
        # In the storage of x, so that no later re-encoding finds it different.
        signed, expressed = plan.middle.storage.signed, plan.middle.expressed
        if plan.middle.axis is None:
            constant = exact_scalar(plan.offsets[0], expressed, (), session, signed=signed)
        else:
            rank = len(shape_of(value)) - plan.middle.axis
            constant = exact_vector(plan.offsets, rank, expressed, session, signed=signed)
        made.append(constant)
        operands = [x, constant.result] if plan.form is Form.ADD else [constant.result, x]
    kinds = {Form.ADD: AddOp, Form.SUB: SubOp, Form.NEG: NegOp}
    new = kinds[plan.form].create(
        operands=operands,
        result_types=[kind],
        properties={"rounding": StringAttr(rounding.value)},
        attributes=attributes,
    )
    return [*made, new]


def _reads(value: SSAValue, kind: UniformType) -> list[Operation]:
    """The codes of `value`, read as `kind`, which has the same storage."""
    source = qparams_of(value)
    assert source is not None
    if source == kind.qparams:
        return []
    bits_type: Attribute = with_element(value.type, storage_type(source))
    bits = SCastOp(value, bits_type)
    return [bits, SCastOp(bits.result, with_element(value.type, kind))]


def plan_in_floats(
    plan: Plan,
    found: Contract,
    channels: Sequence[Channel],
    wanted: exact.Codes | None,
    result: QParams,
    rounding: Rounding,
) -> tuple[Plan, Contract | None]:
    """A plan that is `found` in the reals, on scales that fit floats, and what it is there;
    `wanted` is what the chain gives in floats, one row per channel or one.

    `channels` are all there are, or the first as an example for all.
    """
    codes = exact.codes_of(channels[0].seen)[None, :]
    if wanted is None:
        return plan, floats_contract(found, None, codes)
    count = len(channels)
    rows = np.broadcast_to(wanted[:count], (count, wanted.shape[1]))
    read, to = Rows.of(plan.middle, count), Rows.of(result, count)
    offsets = np.array([float(c) for c in plan.offsets[:count]], np.float32)[:, None]
    rising = plan.form in (Form.RESCALE, Form.ADD)

    def made(scales: Sequence[float]) -> exact.Codes:
        x = read.with_scales(scales).dequantized(codes)
        with np.errstate(all="ignore"):
            return to.quantized(x + offsets if rising else offsets - x, rounding)

    scales, got = fitted(read.scales.reshape(-1).tolist(), rows, made)
    if plan.middle.count == len(scales):
        plan = replace(plan, kind=UniformType(_with_scales(plan.middle, scales)))
    return plan, floats_contract(found, rows, got)


def _with_scales(params: QParams, scales: Sequence[float]) -> QParams:
    """`params` with other scales."""
    storage, zeros, expressed = params.storage, params.zero_point_list(), params.expressed
    if params.axis is None:
        return QParams.per_tensor(storage, scales[0], zeros[0], expressed)
    return QParams.per_axis(storage, params.axis, scales, zeros, expressed)
