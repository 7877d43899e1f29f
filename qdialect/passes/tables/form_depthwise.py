"""Write affine functions per channel of codes as depthwise convolutions of one tap.

A chain of ops y = clamp(m x + c) (see `affine_chains`) whose numbers differ along the
channels, of either sign, is for each of them one integer product and a bias:

    M x + C  =  t s_x (w (q - z) + b)       w of 7 bits and a sign, t = |M / w|, b of 32 bits

A target that has no integer kernel for a batch norm has one for that.  t is rounded to the
expressed type and b to a whole number; of all w the one is taken that gives the table which
the chain is on its codes, or comes nearest to it:

    all results stay the same                                  exact
    the same, but so close to a tie that float arithmetic,     ties
    before or after, may end on its other side
    else, k the largest difference on any code                 bounded(k)
    some of them where a middle was clipped                    saturation

Where the target's price of the convolution is not higher than that of the chain.

For example

    %m = nn.constant dense<[[0.5], [-0.5]]> : !m : !m
    %c = nn.constant dense<[[1.5], [0.0]]> : !m : !m
    %0 = nn.mul %x, %m : (!a, !m) -> !b
    %1 = nn.add %0, %c : (!b, !m) -> !y

becomes

    %2 = nn.constant dense<[[[64]], [[-64]]]> : tensor<2x1x1xi8> : !w
    %3 = nn.constant dense<[384, 0]> : tensor<2xi32> : !bias
    %1 = nn.conv1d %x, %2, %3 groups 2 : (!a, !w, !bias) -> !y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.linear import linear_tables
from qdialect.algebra.one_product import Product, products
from qdialect.algebra.qparams import QParams, Storage
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import Conv1DOp, Conv2DOp, Conv3DOp, make_constant
from qdialect.ir.ops.contraction import ConvolutionOp
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.quant import UniformType, element_type
from qdialect.passes.folding.affine_chains import (
    Chain,
    ChainOp,
    ChainRule,
    Channel,
    Undefined,
    axes_of,
    chain_op,
    chain_to,
    channels_of,
    codes_contract,
    tables_of,
)
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule

_CHANNELS = 1
_OPS: Mapping[int, type[ConvolutionOp]] = {3: Conv1DOp, 4: Conv2DOp, 5: Conv3DOp}


@dataclass(eq=False)
class _Chain(Chain):
    """A chain, and the product that each channel of it is (none where refused)."""

    products: Sequence[Product]
    verdict: Contract | Refusal


class AffineToDepthwise(ChainRule[_Chain]):
    """clamp(M x + C) on codes, channel by channel, is a convolution; see the module."""

    name = "affine-to-depthwise"

    def match(self, op: Operation) -> _Chain | None:
        chains = self._chains(op)
        if not chains or self._goes_on(op):
            return None
        # The strongest contract, then the longest; a refusal of the shortest says most.
        return min(chains, key=_strength)

    def _chains(self, op: Operation) -> list[_Chain]:
        ops = chain_to(op, self.session)
        computing = [n + 1 for n, link in enumerate(ops) if link.computes]
        if not computing or ops[0].reinterprets:
            return []
        chains = [ops[:n] for n in range(computing[0], len(ops) + 1)]
        return [self._decide(chain) for chain in chains if set(axes_of(chain)) == {_CHANNELS}]

    def _goes_on(self, op: Operation) -> bool:
        """Whether what follows is part of a longer chain that becomes one convolution."""
        users = list(op.results[0].uses)
        if len(users) != 1 or chain_op(users[0].operation, self.session) is None:
            return False
        return any(
            isinstance(chain.verdict, Contract) and any(link.op is op for link in chain.ops)
            for chain in self._chains(users[0].operation)
        )

    def check(self, match: _Chain) -> Contract | Refusal:
        return match.verdict

    def _decide(self, ops: Sequence[ChainOp]) -> _Chain:
        def refused(code: str, reason: str) -> _Chain:
            return _Chain(ops, (), Refusal(code, reason))

        x = ops[-1].x
        source, result = qparams_of(x), qparams_of(ops[0].op.results[0])
        assert source is not None and result is not None
        shape = shape_of(x)
        if len(shape) not in _OPS:
            return refused("shape", f"no convolution has {len(shape)} dimensions")
        if shape[_CHANNELS] == DYNAMIC:
            return refused("shape", "the number of channels is not known")
        if not (source.is_per_tensor and result.is_per_tensor):
            return refused("grid", "the operand or the result has parameters per channel")
        channels = channels_of(ops, self.session)
        try:
            # A few channels mostly decide that a chain is refused: ever more of them, all but the
            # last quarter.
            first, contract = self._products(ops, channels[:1])
            refusal = self._refuse(_Chain(ops, [*first] * len(channels), contract))
            if refusal is not None and refusal.code == "price":
                return _Chain(ops, (), refusal)
            start, size = 1, 4
            while start + 4 * size < len(channels):
                self._products(ops, channels[start : start + size])
                start, size = start + size, 4 * size
            chain = _Chain(ops, *self._products(ops, channels[:]))
        except Undefined:
            return refused("slope", "it is not defined for all constants")
        except _Impossible as error:
            return _Chain(ops, (), error.refusal)
        refusal = self._refuse(chain)
        return chain if refusal is None else _Chain(ops, (), refusal)

    def _products(
        self, ops: Sequence[ChainOp], channels: Sequence[Channel]
    ) -> tuple[Sequence[Product], Contract]:
        """Products for channels, and what they change; _Impossible if that is too much."""
        codes, source = exact.codes_of(channels[0].source), qparams_of(ops[-1].x)
        assert source is not None
        expected, rounding = tables_of(channels), Chain(ops).rounding
        lines = [c.whole_line for c in channels]
        found = products(lines, expected.codes, codes, rounding, source.expressed)
        if found is None:
            raise _Impossible(Refusal("range", "no scale or bias is that small or large"))
        lines = [p.line(line) for p, line in zip(found, lines, strict=True)]
        actual = linear_tables(codes, lines, rounding)
        contract = codes_contract(channels, expected, actual, source.expressed)
        if contract is None:
            reason = "a clamp acts that no storage bound stands for"
            raise _Impossible(Refusal("table", reason))
        if contract.level > self._level:
            reason = f"would be {contract}, but only {self._level} is allowed"
            raise _Impossible(Refusal("numerics", reason))
        return found, contract

    def _refuse(self, chain: _Chain) -> Refusal | None:
        """Why the convolution is no gain, or not for this target."""
        target, new = self.session.target, self._build(chain)
        refusal = refuse_new(self.session, new)
        price = target.op_price(new[-1])
        saved = sum(target.op_price(link.op) for link in chain.ops if not link.reinterprets)
        erase_new(new)
        if refusal is None and price > saved:
            reason = f"{target.name}: costs {price:g}, what it replaces {saved:g}"
            refusal = Refusal("price", reason)
        return refusal

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        rewriter.replace_by(match.root, self._build(match))

    def _build(self, chain: _Chain) -> list[Operation]:
        """The ops in its place, in no block yet; the last one gives the result."""
        source, store = qparams_of(chain.x), self.session.blobs
        assert source is not None
        shape = shape_of(chain.x)
        rank, count = len(shape) - 2, shape[_CHANNELS]
        every = [chain.products[n % len(chain.products)] for n in range(count)]
        scales = [product.scale for product in every]
        steps = [scale * source.scale for scale in scales]
        kinds = [
            QParams.per_axis(Storage.of(storage), 0, values, None, source.expressed)
            for storage, values in (("i8", scales), ("i32", steps))
        ]
        weights = np.array([p.weight for p in every], np.int8).reshape(count, *(1,) * (rank + 1))
        new: list[Operation] = [make_constant(weights, UniformType(kinds[0]), store)]
        biases = np.array([p.bias for p in every], np.int32)
        if biases.any():
            new.append(make_constant(biases, UniformType(kinds[1]), store))
        attributes = {n: a for n, a in chain.root.attributes.items() if n != QPARAMS}
        conv = _OPS[len(shape)](
            chain.x,
            *(constant.results[0] for constant in new),
            element=element_type(chain.root.results[0].type),
            attributes=attributes,
            groups=count,
            rounding=chain.rounding.value,
        )
        return [*new, conv]


class _Impossible(Exception):
    """No products do."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def _strength(chain: _Chain) -> tuple[float, float, int]:
    contract, length = chain.verdict, len(chain.ops)
    if isinstance(contract, Refusal):
        return float("inf"), 0.0, length
    return contract.level, contract.steps, -length


@dataclass(frozen=True)
class FormDepthwise(RulePass):
    """Affine functions per channel become depthwise convolutions; see the module."""

    name = "form-depthwise"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (AffineToDepthwise(session, Numerics.parse(self.numerics)),)
