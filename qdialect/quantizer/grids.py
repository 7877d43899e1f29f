"""Which qparams the values and constants of the selected ops get.

Values have one scale. Each falls into one of three cases:

    own      qparams of its range in the profile; a quantize, dequantize pair stands on it
    lifted   its one user moves or picks elements (relu, concat): what that makes of it is
             quantized, and quantizing commutes with the op.  So a convolution rounds to
             the range behind its relu, and all parts of a concat to the range of the whole
    carried  the result of such an op on codes: it has the qparams of the operands

All are inside the domains that the target states for the ports around a value
(`port_domains`), nearest by loss. An op whose ports take other qparams than those of an
operand gets codes of its own by a rescale (`Grids.uses`); a contraction whose kernel gives its
sums only, a rescale behind it (`Grids.sums`).

The weights of a contraction are symmetric, per channel where the port allows it, and its
bias is i32 on the scale of the products (`weights`); sums fit what the target adds up in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.qparams.domains import ANY_DOMAIN, Domain, Scales, with_storages
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.parameters import pack_i64
from qdialect.algebra.sums import SUMS, Span, SumType, runtime_excess, to_signed
from qdialect.algebra.weights import (
    Choice,
    Overflow,
    Sums,
    Weights,
    choose_weights,
    zero_of,
)
from qdialect.analysis.accumulators import signed_shift
from qdialect.analysis.caches import reads_shape
from qdialect.analysis.codes import is_integer
from qdialect.ir.behaviors import Accumulator, Behavior, PortKind
from qdialect.ir.behaviors.flow import carry_all_down, tied_operands
from qdialect.ir.ops import TableOp, constant_array, shape_of
from qdialect.ir.ops.ports import port_refusal
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import RescaleOp, UniformType, element_type, quant_element, with_element
from qdialect.passes.rescale.split_rescale import accumulator_qparams
from qdialect.quantizer.blocks import Coded
from qdialect.quantizer.probed import probed_domains
from qdialect.quantizer.profile.nearest import qparams_inside
from qdialect.quantizer.profile.ranges import Range, max_of_channels
from qdialect.quantizer.profile.scheme import Scheme, array_qparams, tensor_qparams
from qdialect.quantizer.selection import Selection, runtime_tied
from qdialect.quantizer.values import (
    codes_behind,
    needed_range,
    offsets_of,
    only_user,
    real_array,
    reals_of,
    users,
)
from qdialect.rewrite import Refusal
from qdialect.targets.base import Target

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BIAS = Storage.of("i32")
_FARTHEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Constant:
    """A constant operand in codes."""

    codes: NDArray[Any]
    qparams: QParams

    def real(self) -> NDArray[np.float64]:
        """The numbers that the codes name."""
        return reals_of(self.codes, self.qparams)


@dataclass
class Grids:
    """Qparams by value, the values with a pair of casts, constants by op and operand; by op,
    what was done to its weights so that their sums fit."""

    qparams: dict[SSAValue, QParams] = field(default_factory=dict[SSAValue, QParams])
    pairs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    constants: dict[tuple[Operation, int], Constant] = field(
        default_factory=dict["tuple[Operation, int]", Constant]
    )
    reranged: dict[Operation, str] = field(default_factory=dict[Operation, str])
    #: qparams of single uses, where the op takes others than those of the value
    uses: dict[tuple[Operation, int], QParams] = field(
        default_factory=dict["tuple[Operation, int]", QParams]
    )
    #: codes of weights of ops that stay float, where they are not those of least squared error
    only_weights: dict[Operation, Coded] = field(default_factory=dict[Operation, "Coded"])
    #: what the bias of an op is to be lessened by, where that was found along with its weights
    shifts: dict[Operation, NDArray[np.float64]] = field(
        default_factory=dict[Operation, "NDArray[np.float64]"]
    )
    #: contractions that give their sums, and a rescale behind them what the value has
    sums: dict[Operation, QParams] = field(default_factory=dict[Operation, QParams])

    def operand(self, op: Operation, index: int) -> QParams | None:
        """The qparams of an operand of an op, if it has any."""
        return self.uses.get((op, index)) or self.qparams.get(op.operands[index])


def assign(selection: Selection) -> Grids:
    """The grids of a selection; ops that no grid fits are dropped from it."""
    while True:
        found = _Assignment(selection).run()
        if isinstance(found, Grids):
            return found
        for op, refusal in found.items():
            selection.drop(op, refusal)
        selection.settle()


class _Assignment:
    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.values = selection.values
        self.recipe = selection.values.recipe
        self.session = selection.values.ctx
        self.grids = Grids()
        self.domains = PortDomains(selection)
        self.summed: dict[Operation, None] = {}
        self.refused: dict[Operation, Refusal] = {}

    def run(self) -> Grids | dict[Operation, Refusal]:
        """The grids, or the ops that have none."""
        ops = self.selection.ops
        for value in self.values.all_values():
            owner = value.owner
            if isinstance(owner, Operation) and owner in ops:
                self._result(value, owner, ops[owner])
            elif value in self.selection.caches and self._lifted(value):
                self.grids.pairs[value] = None
            elif any(user in ops for user in users(value)):
                self._own(value)
        for op in reversed(ops):
            if len(op.results) == 1 and (q := self.grids.qparams.get(op.results[0])):
                for value in runtime_tied(op, ops[op]):
                    self.grids.qparams.setdefault(value, q)
        for op, behavior in ops.items():
            if behavior.commutes and len(op.results) == 1:
                self._tie_uses(op, behavior)
            refusal = self._constants(op, behavior) or self._types(op, behavior)
            if refusal is not None:
                self.refused[op] = refusal
        return self.refused or self.grids

    def _own(self, value: SSAValue, *, made: bool = True) -> None:
        found = needed_range(value, self.values, self.selection.ops)
        domains = self.domains.value(value, made=made)
        self.grids.qparams[value] = self._choose(value, found, domains)
        self.grids.pairs[value] = None

    def _choose(self, value: SSAValue, found: Range, domains: Domains) -> QParams:
        """The qparams in some domains for a range of a value; those that nothing restricts where
        the domains have none."""
        scheme = self._scheme(value)
        clips = self.recipe.calibration != "minmax"
        data = self.values.data
        inside = qparams_inside(found, scheme, domains, lambda: data(value), clips=clips)
        return inside or tensor_qparams(found, scheme)[0]

    def _scheme(self, value: SSAValue) -> Scheme:
        return self.recipe.activation_scheme(str(element_type(value.type)))

    def _result(self, value: SSAValue, op: Operation, behavior: Behavior) -> None:
        index = op.results.index(value)
        if not index:
            self._own_uses(op, behavior)
        if behavior.is_tied:
            carried = self._carried(value, op, behavior)
            if carried is not None:
                self.grids.qparams[value] = carried
                ops = self.selection.ops
                if not behavior.commutes or any(user not in ops for user in users(value)):
                    self.grids.pairs[value] = None
                return
        same = self.domains.tied_to(op, index, result=True)
        joins = behavior.is_tied and len(self._above(op, behavior)) > 1
        if same is not None and not joins and (q := self.grids.operand(op, same)) is not None:
            self.grids.qparams[value] = q
            self.grids.pairs[value] = None
            return
        summed = behavior.accumulator is not None and wide_only(self.domains.result(op))
        if summed:
            self.summed[op] = None
        if not self._lifted(value):
            self._own(value, made=not summed)

    def _own_uses(self, op: Operation, behavior: Behavior) -> None:
        """The operands of an op that it takes on other qparams than those of their values."""
        if behavior.commutes:
            return
        runtime = [n for n, value in enumerate(op.operands) if value in self.grids.qparams]
        ties = {n: same for n in runtime if (same := self.domains.tied_to(op, n)) in runtime}
        for first in dict.fromkeys(ties.values()):
            assert first is not None
            together = [first, *(n for n, same in ties.items() if same == first)]
            self._use(op, together, joint=True)
        for index in runtime:
            if index not in ties and index not in ties.values():
                self._use(op, [index])

    def _tie_uses(self, op: Operation, behavior: Behavior) -> None:
        """Give operands of an op that moves or picks elements what its result has, where kernels
        take no other."""
        chosen, tied = self.grids.qparams.get(op.results[0]), tied_operands(op, behavior)
        if chosen is None or len(tied) < 2 or self.domains.tied_to(op, 0, result=True) is None:
            return
        for index in tied:
            known = self.grids.qparams.get(op.operands[index])
            if known not in (None, chosen) and self.domains.takes_rescale(known, chosen):
                self.grids.uses[op, index] = chosen

    def _use(self, op: Operation, operands: Sequence[int], *, joint: bool = False) -> None:
        """Give operands that have the same qparams (`joint`), or one, such as the op takes; a
        rescale makes them."""
        domains = self.domains.operand(op, operands[0])
        known = [self.grids.qparams[op.operands[n]] for n in operands]
        fits = any(domain.refuses(known[0]) is None for domain in domains)
        if not domains or (fits and len(set(known)) == 1):
            return
        values = [op.operands[n] for n in operands]
        ranges = [needed_range(value, self.values, self.selection.ops) for value in values]
        chosen = self._choose(values[0], max_of_channels(ranges), domains)
        for index, params in zip(operands, known, strict=True):
            if params != chosen and self.domains.takes_rescale(params, chosen):
                self.grids.uses[op, index] = chosen

    def _lifted(self, value: SSAValue) -> bool:
        user = only_user(value)
        if value in self.selection.caches:
            taking = [each for each in users(value) if not reads_shape(each)]
            user = taking[0] if len(taking) == 1 else None
        behavior = None if user is None else self.selection.ops.get(user)
        if user is None or behavior is None or not behavior.commutes or len(user.results) > 1:
            return False
        return value in runtime_tied(user, behavior)

    def _above(self, op: Operation, behavior: Behavior) -> set[QParams | None]:
        """The qparams of the operands that an op gives on; several where it joins ranges (a
        concat of different things), and its result has a range of its own."""
        return {self.grids.qparams.get(value) for value in runtime_tied(op, behavior)}

    def _carried(self, value: SSAValue, op: Operation, behavior: Behavior) -> QParams | None:
        above = [self.grids.qparams.get(v) for v in runtime_tied(op, behavior)]
        first = above[0] if above else None
        if first is None or any(q != first for q in above):
            return None
        carried = carry_all_down(op, behavior, [first] * len(tied_operands(op, behavior)))
        return None if isinstance(carried, Illegal) else carried[op.results.index(value)]

    # -- constants -----------------------------------------------------------

    def _constants(self, op: Operation, behavior: Behavior) -> Refusal | None:
        if behavior.accumulator is not None:
            return self._contraction(op, behavior, behavior.accumulator)
        for index, operand in enumerate(op.operands):
            port, array = behavior.operand_port(index), self._array(operand)
            if array is None or port.kind is PortKind.PLAIN:
                continue
            if self._is_masked(op):
                # An infinite mask is as far as others are: where codes end.
                array = np.clip(array, -_FARTHEST, _FARTHEST)
            if not np.isfinite(array).all():
                return Refusal("grid", f"the {port.role} is not finite")
            if port.channels is not None:
                made = self._layer_weights(op, behavior, index, port.channels, array)
                if isinstance(made, Refusal):
                    return made
                self.grids.constants[op, index] = made
                continue
            if port.kind is PortKind.TIED:
                params = self.grids.qparams[op.results[0]]
            else:
                params = self._constant_qparams(op, index, array)
            if params is None:
                continue
            codes = np.rint(array / params.scale) + params.zero_point
            codes = np.clip(codes, params.storage.min, params.storage.max)
            self.grids.constants[op, index] = Constant(_stored(codes, params), params)
        return None

    def _is_masked(self, op: Operation) -> bool:
        found = self.values.range(op.results[0])
        return found is not None and found.is_masked

    def _constant_qparams(
        self, op: Operation, index: int, array: NDArray[np.float64]
    ) -> QParams | None:
        """The qparams of a constant that is no weight; None for one number where the port takes
        any: whoever makes the op an integer op writes its exact codes."""
        scheme, domains = self._scheme(op.operands[index]), self.domains.operand(op, index) or FREE
        same = self.domains.tied_to(op, index)
        if same is not None and (other := self.grids.operand(op, same)) is not None:
            return other
        params = array_qparams(array, scheme)[0]
        free = any(not domain.zeros and not domain.scales for domain in domains)
        if free and array.size and (array == array.flat[0]).all():
            return None
        low, high = array.min(initial=0.0), array.max(initial=0.0)
        return qparams_inside(Range(float(low), float(high)), scheme, domains) or params

    def _array(self, value: SSAValue) -> NDArray[np.float64] | None:
        return real_array(value, self.session.blobs)

    def _layer_weights(
        self, op: Operation, behavior: Behavior, index: int, axis: int, array: NDArray[np.float64]
    ) -> Constant | Refusal:
        """Weights of products that are summed inside the op."""
        runtime = self.grids.operand(op, 0)
        if runtime is None:
            return Refusal("grid", "the input is a constant")
        per_axis = self._is_per_axis(op, behavior, 0, index, axis, array)
        sums = Sums(runtime.scale, Span.of(runtime), None, self._sum_type(op))
        try:
            codes, params = self._codes(op, index, array, axis, per_axis, sums, runtime)
        except Overflow as error:
            return Refusal("grid", str(error))
        return Constant(codes, params)

    def _codes(
        self,
        op: Operation,
        index: int,
        array: NDArray[np.float64],
        axis: int,
        per_axis: bool,
        sums: Sums,
        runtime: QParams,
    ) -> tuple[NDArray[Any], QParams]:
        """Weights (operand `index`) in codes, with a scale for each index of `axis` if
        `per_axis`; Overflow."""
        expressed, (storage, allowed) = runtime.expressed, self._weight_domain(op, index)
        moved = self._channels_first(op, index, axis, array)
        search = self.recipe.weight_ranges == "mse"
        choice = Choice(storage, expressed, search, per_axis, allowed)
        found = choose_weights(moved.reshape(len(moved), -1), sums, choice)
        self._remark_on(op, found, sums)
        zero, scales = zero_of(storage), found.scales
        codes = (found.codes + zero).reshape(moved.shape)
        codes = codes.reshape(array.shape) if len(moved) == 1 else np.moveaxis(codes, 0, axis)
        if per_axis:
            params = QParams.per_axis(storage, axis, scales, [zero] * len(scales), expressed)
        else:
            params = QParams.per_tensor(storage, scales[0], zero, expressed)
        return _stored(codes, params), params

    def _channels_first(
        self, op: Operation, index: int, axis: int, array: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Weights with the channels first, one for all of a vector: all of it is summed."""
        allowed = self.selection.ops[op].operand_port(index).axes
        if allowed is not None and axis not in allowed(op):
            return array[np.newaxis]
        return np.moveaxis(array, axis, 0)

    def _sum_type(self, op: Operation) -> SumType:
        return sum_type(op, self.grids, self.session.target)

    def _remark_on(self, op: Operation, found: Weights, sums: Sums) -> None:
        if found.enlarged:
            self.grids.reranged[op] = (
                f"{found.enlarged} of {len(found.codes)} channels would leave sums in "
                f"{sums.kind}: scales of weights up to {found.factor:.3g} times as large"
            )

    def _runtime(self, op: Operation, index: int) -> QParams:
        found = self.grids.operand(op, index)
        assert found is not None
        return found

    def _weight_domain(self, op: Operation, index: int) -> tuple[Storage, tuple[Scales, ...]]:
        preferred = self.recipe.integer_weights
        stored = with_storages(self.domains.operand(op, index), preferred)
        domain, storage = stored[0] if stored else (ANY_DOMAIN, preferred)
        scales = domain.scales
        if self.recipe.scheme == "power-of-two":
            scales = tuple(dict.fromkeys((*scales, Scales.parse("2^n"))))
        return storage, scales

    def _contraction(self, op: Operation, behavior: Behavior, acc: Accumulator) -> Refusal | None:
        array = self._array(op.operands[acc.rhs])
        if array is not None:
            return self._weights(op, behavior, acc, array)
        array = self._array(op.operands[acc.lhs])
        if array is not None:
            return self._left(op, acc, array)
        return self._runtime_products(op, acc)

    def _runtime_products(self, op: Operation, acc: Accumulator) -> Refusal | None:
        """Why products of two runtime operands may not fit the sums of the target."""
        depth, kind = acc.depth(op), self._sum_type(op)
        if depth == DYNAMIC:
            return None
        lhs, rhs = (self._runtime(op, n) for n in (acc.lhs, acc.rhs))
        ends = rhs.storage.min + to_signed(rhs.storage), rhs.storage.max + to_signed(rhs.storage)
        if runtime_excess(Span.of(lhs), Span.of(rhs), ends, depth, kind) <= 1:
            return None
        return Refusal(
            "grid",
            f"sums of {depth} products of {lhs.storage} and {rhs.storage} may not fit {kind}",
        )

    def _weights(
        self, op: Operation, behavior: Behavior, acc: Accumulator, array: NDArray[np.float64]
    ) -> Refusal | None:
        if not np.isfinite(array).all():
            return Refusal("grid", "the weights are not finite")
        axis = acc.rhs_axis(op)
        per_axis = self._is_per_axis(op, behavior, acc.lhs, acc.rhs, axis, array)
        runtime = self._runtime(op, acc.lhs)
        bias = None
        if acc.bias is not None and acc.bias < len(op.operands):
            bias = self._array(op.operands[acc.bias])
        if bias is not None and not np.isfinite(bias).all():
            return Refusal("grid", "the bias is not finite")
        stored = bias_storage(op, acc, self.session.target)
        most = min(stored.max, -stored.min)
        kind = self._sum_type(op)
        sums = Sums(runtime.scale, Span.of(runtime), bias, kind, bias_most=most)
        existing = self._existing_codes(op, behavior, acc, runtime, sums)
        if existing is None:
            try:
                codes, params = self._codes(op, acc.rhs, array, axis, per_axis, sums, runtime)
            except Overflow as error:
                return Refusal("grid", str(error))
            existing = Constant(codes, params)
        self.grids.constants[op, acc.rhs] = existing
        if bias is not None:
            assert acc.bias is not None
            found = bias_qparams(op, acc, runtime, existing.qparams.scale_list(), stored)
            self.grids.constants[op, acc.bias] = Constant(bias_codes(bias, found), found)
        return None

    def _is_per_axis(
        self,
        op: Operation,
        behavior: Behavior,
        lhs: int,
        rhs: int,
        axis: int,
        array: NDArray[np.float64],
    ) -> bool:
        """Whether weights (operand `rhs`, channels along `axis`) get a scale per channel: where
        the port and the target take that."""
        allowed = behavior.operand_port(rhs).axes
        if not self.recipe.per_channel or not array.ndim:
            return False
        if not self.session.target.per_axis or not (allowed is None or axis in allowed(op)):
            return False
        runtime, result = self.grids.operand(op, lhs), self.grids.qparams.get(op.results[0])
        if runtime is None or result is None:
            return True
        operands = [operand.type for operand in op.operands]
        operands[lhs] = with_element(operands[lhs], UniformType(runtime))
        (storage, allowed), count = self._weight_domain(op, rhs), array.shape[axis]
        scale = allowed[0].near(1.0)[-1] if allowed else 1.0
        for scales in ([scale] * count, None):
            params = (
                QParams.per_tensor(storage, scale, 0, runtime.expressed)
                if scales is None
                else QParams.per_axis(storage, axis, scales, None, runtime.expressed)
            )
            operands[rhs] = with_element(op.operands[rhs].type, UniformType(params))
            if op in self.summed and behavior.accumulator is not None:
                result = accumulator_qparams(op, behavior.accumulator, runtime, params)
            results = [with_element(op.results[0].type, UniformType(result))]
            if self.session.target.refuses(op, operands, results) is None:
                return scales is not None
        return True

    def _existing_codes(
        self,
        op: Operation,
        behavior: Behavior,
        acc: Accumulator,
        runtime: QParams,
        sums: Sums,
    ) -> Constant | None:
        """The codes that a weight has already, if the op takes them and their sums fit; else
        they are rounded again."""
        constant = codes_behind(op.operands[acc.rhs])
        element = None if constant is None else quant_element(constant.result.type)
        if constant is None or element is None:
            return None
        params, shape = element.qparams, shape_of(constant.result)
        axis = acc.rhs_axis(op)
        if not is_integer(params) or params.storage.width > 8:
            return None
        if params.expressed != runtime.expressed or not (
            params.is_per_tensor or (params.axis == axis and self.session.target.per_axis)
        ):
            return None
        codes = constant_array(constant, self.session.blobs)
        offsets, domains = offsets_of(codes, params), self.domains.operand(op, acc.rhs)
        storage, allowed = self._weight_domain(op, acc.rhs)
        if domains and all(domain.refuses(params) for domain in domains):
            # The same numbers on the same scales, in a storage that has codes for them.
            zero = zero_of(storage)
            zeros = pack_i64([zero] * len(params.scale_list()))
            params = replace(params, storage=storage, zero_points=zeros)
            moved = offsets + zero
            fits = storage.min <= moved.min(initial=zero) and moved.max(initial=zero) <= storage.max
            if not fits or all(domain.refuses(params) for domain in domains):
                return None
            codes = _stored(moved, params)
        if port_refusal(op, behavior.operand_port(acc.rhs), params, shape) is not None:
            return None
        if not all(scales.holds(params.scale_list()) for scales in allowed):
            return None
        moved = self._channels_first(op, acc.rhs, axis, offsets)
        rows = moved.reshape(len(moved), -1).astype(np.int64)
        beyond = sums.excess(rows, params.scale_array().reshape(-1), signed_shift(params))
        return None if (beyond > 1).any() else Constant(codes, params)

    def _left(self, op: Operation, acc: Accumulator, array: NDArray[np.float64]) -> Refusal | None:
        """A constant on the left side has one scale."""
        if not np.isfinite(array).all():
            return Refusal("grid", "the left side is not finite")
        runtime = self._runtime(op, acc.rhs)
        (storage, allowed), depth = self._weight_domain(op, acc.lhs), max(acc.depth(op), 1)
        sums = Sums(runtime.scale, Span.of(runtime), None, self._sum_type(op), depth)
        choice = Choice(storage, runtime.expressed, allowed=allowed)
        try:
            found = choose_weights(array.reshape(1, -1), sums, choice)
        except Overflow as error:
            return Refusal("grid", str(error))
        self._remark_on(op, found, sums)
        zero = zero_of(storage)
        params = QParams.per_tensor(storage, found.scales[0], zero, runtime.expressed)
        codes = found.codes.reshape(array.shape) + zero
        self.grids.constants[op, acc.lhs] = Constant(_stored(codes, params), params)
        return None

    # -- legality ------------------------------------------------------------

    def _types(self, op: Operation, behavior: Behavior) -> Refusal | None:
        """Why the op cannot have the types it would have, on its ports or on the target."""
        operands: list[Attribute] = []
        for index, operand in enumerate(op.operands):
            constant = self.grids.constants.get((op, index))
            known = self.grids.operand(op, index) if constant is None else constant.qparams
            port = behavior.operand_port(index)
            array = None if port.kind is PortKind.PLAIN else self._array(operand)
            if known is None and array is not None:
                # One number, which gets its codes with the op.
                known = self._constant_qparams(op, index, array)
                known = known or array_qparams(array, self._scheme(operand))[0]
            if port.kind is PortKind.PLAIN or known is None:
                operands.append(operand.type)
                continue
            reason = port_refusal(op, port, known, shape_of(operand))
            if reason is not None:
                return Refusal("grid", reason)
            operands.append(with_element(operand.type, UniformType(known)))
        results: list[Attribute] = []
        for index, result in enumerate(op.results):
            known, port = self.grids.qparams.get(result), behavior.result_port(index)
            if known is None:  # of indices and conditions
                results.append(result.type)
                continue
            if reason := port_refusal(op, port, known, shape_of(result)):
                return Refusal("grid", reason)
            results.append(with_element(result.type, UniformType(known)))
        if op in self.summed and behavior.accumulator is not None:
            sums = self._sums(op, behavior.accumulator)
            if not self.domains.takes_rescale(sums, self.grids.qparams[op.results[0]]):
                name = self.session.target.name
                return Refusal("target", f"{name}: no rescale takes its sums to {results[0]}")
            self.grids.sums[op] = sums
            results = [with_element(op.results[0].type, UniformType(sums))]
        reason = self.session.target.refuses(op, operands, results)
        if reason is None or self._is_looked_up(op, behavior, operands, results):
            return None
        return Refusal("target", f"{self.session.target.name}: {reason}")

    def _sums(self, op: Operation, acc: Accumulator) -> QParams:
        sides: list[QParams] = []
        for index in (acc.lhs, acc.rhs):
            constant = self.grids.constants.get((op, index))
            sides.append(self._runtime(op, index) if constant is None else constant.qparams)
        return accumulator_qparams(op, acc, *sides)

    def _is_looked_up(
        self, op: Operation, behavior: Behavior, types: Sequence[Attribute], gives: list[Attribute]
    ) -> bool:
        """Whether the target has a table for what it has no op for: elements of few codes,
        made of one value and of constants of one number each."""
        arrays = {value: (n, self._array(value)) for n, value in enumerate(op.operands)}
        inputs = {value: n for value, (n, array) in arrays.items() if array is None}
        varies = any(
            array is not None and array.size and np.ptp(array) for _, array in arrays.values()
        )
        if not behavior.elementwise or len(inputs) != 1 or len(gives) != 1 or varies:
            return False
        ((value, number),) = inputs.items()
        known = self.grids.operand(op, number)
        if known is None or not known.is_per_tensor or known.storage.width > 8:
            return False
        entries = TensorType(element_type(gives[0]), [1 << known.storage.width])
        made = TableOp.create(operands=[value, value], result_types=gives)
        reason = self.session.target.refuses(made, [types[number], entries], gives)
        made.drop_all_references()
        return reason is None


def bias_storage(op: Operation, acc: Accumulator, target: Target) -> Storage:
    """i32, within the bounds that a target has for biases of an op."""
    for domain in () if acc.bias is None else target.port_domains(op.name, acc.bias):
        if (found := domain.bounds(_BIAS)) is not None:
            return found
    return _BIAS


def bias_qparams(
    op: Operation,
    acc: Accumulator,
    runtime: QParams,
    scales: Sequence[float],
    storage: Storage = _BIAS,
) -> QParams:
    """i32 on the scale of the products, for weights on `scales`."""
    products = [round_to_format(runtime.scale * scale, runtime.expressed) for scale in scales]
    if len(products) == 1:
        return QParams.per_tensor(storage, products[0], 0, runtime.expressed)
    products *= acc.repeats(op)
    return QParams.per_axis(storage, 0, products, None, runtime.expressed)


def bias_codes(bias: NDArray[np.float64], params: QParams) -> NDArray[Any]:
    """The codes of a bias."""
    codes = np.rint(bias / params.scale_array().reshape(-1))
    most = min(params.storage.max, -params.storage.min)
    return _stored(np.clip(codes, -most, most), params)


def sum_type(op: Operation, grids: Grids, target: Target) -> SumType:
    """What a target adds up the products of an op in, whatever its constants become."""
    operands = [grids.operand(op, index) for index in range(len(op.operands))]
    return target.sums(op, operands, [None] * len(op.results)) or SUMS


def _stored(codes: NDArray[Any], params: QParams) -> NDArray[Any]:
    width = max(8, params.storage.width)
    return codes.astype(np.dtype(f"{'i' if params.storage.signed else 'u'}{width // 8}"))


# The qparams that a target allows on the values of a selection.
#
# A port of a selected op has one domain for each kernel of the target. A value has the domains
# of the result port that makes it, met with those of the operand ports that take it, past ops
# that hand qparams on (`grids`): what every kernel around it takes. Where two users have nothing
# in common, the later one gets codes of its own, by a rescale in front of it.

Domains = tuple[Domain, ...]
FREE: Domains = (ANY_DOMAIN,)
_ANY_STORAGE = Storage.of("i8")


class PortDomains:
    """Domains of ports and values, for a selection and a target."""

    def __init__(self, selection: Selection) -> None:
        self._ops = selection.ops
        self._target: Target = selection.values.ctx.target
        self._probed = probed_domains(self._target)

    def operand(self, op: Operation, index: int) -> Domains:
        """What an operand may be; nothing where no kernel takes codes there."""
        return self._within(self._target.port_domains(op.name, index))

    def result(self, op: Operation, index: int = 0) -> Domains:
        """What a result may be."""
        return self._within(self._target.port_domains(op.name, index, result=True))

    def _within(self, domains: Domains) -> Domains:
        if not self._probed:
            return domains
        met = (a.meet(b) for a in domains for b in self._probed)
        return tuple(dict.fromkeys(each for each in met if each is not None)) or domains

    def rescaled(self) -> Domains:
        """What a rescale may give."""
        return self._within(self._target.port_domains(RescaleOp.name, 0, result=True)) or FREE

    def takes_rescale(self, source: QParams, result: QParams) -> bool:
        """Whether the target runs such a rescale."""
        return isfinite(self._target.rescale_price(source, result))

    def value(self, value: SSAValue, *, made: bool = True) -> Domains:
        """What a value may be for the op that makes it (unless not `made`), and for as many of
        the ports that take it as agree, in their order."""
        found = FREE if made else self.rescaled()
        for domains in self._around(value, made):
            met = [both for a in found for b in domains if (both := a.meet(b)) is not None]
            # Nothing is quantized to what only sums are kept in.
            met = [each for each in met if each.storage(_ANY_STORAGE) is not None]
            found = tuple(dict.fromkeys(met)) or found
        return found

    def tied_to(self, op: Operation, port: int, *, result: bool = False) -> int | None:
        """The operand whose qparams a port has in every kernel, or None."""
        domains = self.result(op, port) if result else self.operand(op, port)
        same = {domain.same_as for domain in domains}
        return same.pop() if len(same) == 1 else None

    def _around(self, value: SSAValue, made: bool) -> Iterator[Domains]:
        if made:
            yield from self._above(value)
        yield from self._below(value)

    def _above(self, value: SSAValue) -> Iterator[Domains]:
        owner = value.owner
        behavior = self._ops.get(owner) if isinstance(owner, Operation) else None
        if not isinstance(owner, Operation) or behavior is None:
            return
        yield self.result(owner, owner.results.index(value))
        if not behavior.commutes:
            return
        # Its operands are made on these qparams where nothing else takes them.
        for operand in runtime_tied(owner, behavior):
            yield self.operand(owner, owner.operands.index(operand))
            if only_user(operand) is owner:
                yield from self._above(operand)

    def _below(self, value: SSAValue) -> Iterator[Domains]:
        for user in users(value):
            behavior = self._ops.get(user)
            if behavior is None:
                continue
            for index, operand in enumerate(user.operands):
                if operand is value and behavior.operand_port(index).kind is not PortKind.PLAIN:
                    yield self.operand(user, index)
            if behavior.is_tied and len(runtime_tied(user, behavior)) == 1:
                for number, result in enumerate(user.results):
                    yield self.result(user, number)
                    yield from self._below(result)


def wide_only(domains: Sequence[Domain]) -> bool:
    """Whether codes can be of more than 16 bits only: the sums of a contraction."""
    storages = [own for domain in domains for own in domain.storages]
    return (
        bool(storages)
        and all(own.width > 16 for own in storages)
        and all(domain.storages for domain in domains)
    )
