"""Write affine functions per channel of codes as depthwise convolutions of one tap.

A chain of links y = clamp(m x + c) (see `affine_chains`) whose numbers differ along the
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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.behaviors.shapes import DYNAMIC, shape_of
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.linear import Line, linear_tables
from qdialect.numerics.one_product import Product, products
from qdialect.numerics.rounding import Rounding
from qdialect.ops import Conv1DOp, Conv2DOp, Conv3DOp, make_constant
from qdialect.ops.contraction import ConvolutionOp
from qdialect.ops.keys import QPARAMS
from qdialect.passes.folding.affine_chains import (
    Channels,
    Link,
    Undefined,
    axes_of,
    chain_to,
    last_rounding,
    link_of,
    roots_of_chains,
)
from qdialect.passes.folding.affine_contract import codes_contract
from qdialect.passes.folding.affine_tables import Channel, tables_of
from qdialect.passes.rule_pass import RulePass, refuse_types
from qdialect.qparams import QParams, Storage
from qdialect.quant import UniformType, element_type
from qdialect.rewrite import Refusal, Rewriter, Rule

_CHANNELS = 1
_FEW = 4
_OPS: Mapping[int, type[ConvolutionOp]] = {3: Conv1DOp, 4: Conv2DOp, 5: Conv3DOp}


@dataclass(frozen=True, eq=False)
class _Chain:
    """`links`, last first, and the product that each channel of them is."""

    op: Operation
    links: tuple[Link, ...]
    products: Sequence[Product] = ()
    verdict: Contract | Refusal = field(default_factory=lambda: Refusal("", ""))

    @property
    def x(self) -> SSAValue:
        return self.links[-1].x

    @property
    def rounding(self) -> Rounding:
        """That of the last link that rounds."""
        return last_rounding(self.links)


class AffineToDepthwise(Rule[_Chain]):
    """clamp(M x + C) on codes, channel by channel, is a convolution; see the module."""

    name = "affine-to-depthwise"

    def __init__(self, session: QContext, level: Numerics) -> None:
        super().__init__(session)
        #: no need to know by how much a chain misses it
        self._level = level
        #: by last op and length: what was decided of a chain, and what that went by
        self._known: dict[tuple[Operation, int], tuple[object, _Chain]] = {}

    def prepare(self, module: Operation) -> None:
        self._known.clear()

    def roots(self) -> Iterable[str]:
        return roots_of_chains(self.session)

    def match(self, op: Operation) -> _Chain | None:
        decided = self._chains(op)
        if not decided or self._goes_on(op):
            return None
        # The strongest contract, then the longest; a refusal of the shortest says most.
        return min(decided, key=_strength)

    def _chains(self, op: Operation) -> list[_Chain]:
        """The chains that end in `op`."""
        links = chain_to(op, self.session)
        computing = [n + 1 for n, link in enumerate(links) if link.computes]
        if not computing or links[0].is_read:
            return []
        chains = [_Chain(op, tuple(links[:n])) for n in range(computing[0], len(links) + 1)]
        along = [chain for chain in chains if set(axes_of(chain.links)) == {_CHANNELS}]
        return [self._remembered(chain) for chain in along]

    def _remembered(self, chain: _Chain) -> _Chain:
        """`chain` decided: an op is also asked about by the one before."""
        key, went_by = (chain.op, len(chain.links)), self._goes_by(chain)
        known = self._known.get(key)
        if known is None or known[0] != went_by:
            known = self._known[key] = went_by, self._decided(chain)
        return replace(known[1], links=chain.links)

    def _goes_by(self, chain: _Chain) -> object:
        """What decides what becomes of `chain`."""
        ops = [link.op for link in chain.links]
        values = [value for op in ops for value in (*op.operands, *op.results)]
        types = [value.type for value in values]
        # Another value of the same kind may have come in place of the first one.
        same = [value for value in values if value is not chain.x]
        return ops, same, types, narrowed_qparams(chain.x, self.session)

    def _goes_on(self, op: Operation) -> bool:
        """Whether what follows is part of a longer chain that becomes one convolution."""
        users = list(op.results[0].uses)
        if len(users) != 1 or link_of(users[0].operation, self.session) is None:
            return False
        return any(
            isinstance(chain.verdict, Contract) and any(link.op is op for link in chain.links)
            for chain in self._chains(users[0].operation)
        )

    def check(self, match: _Chain) -> Contract | Refusal:
        return match.verdict

    def _decided(self, chain: _Chain) -> _Chain:
        def refused(code: str, reason: str) -> _Chain:
            return _Chain(chain.op, chain.links, (), Refusal(code, reason))

        source, result = qparams_of(chain.x), qparams_of(chain.op.results[0])
        assert source is not None and result is not None
        shape = shape_of(chain.x)
        if len(shape) not in _OPS:
            return refused("shape", f"no convolution has {len(shape)} dimensions")
        if shape[_CHANNELS] == DYNAMIC:
            return refused("shape", "the number of channels is not known")
        if not (source.is_per_tensor and result.is_per_tensor):
            return refused("grid", "the operand or the result has parameters per channel")
        channels = Channels(chain.links, self.session)
        try:
            # Most chains that are refused would be if all channels were like the first ones.
            for few in range(min(_FEW, len(channels))):
                self._products(chain, channels[few : few + 1])
            found, contract = self._products(chain, [channels[n] for n in range(len(channels))])
        except Undefined:
            return refused("slope", "it is not defined for all constants")
        except _Impossible as error:
            return _Chain(chain.op, chain.links, (), error.refusal)
        made = _Chain(chain.op, chain.links, found, contract)
        refusal = self._refuse(made)
        return made if refusal is None else _Chain(chain.op, chain.links, (), refusal)

    def _products(
        self, chain: _Chain, channels: Sequence[Channel]
    ) -> tuple[Sequence[Product], Contract]:
        """Products for channels, and what they change; _Impossible if that is too much."""
        codes, expressed = exact.codes_of(channels[0].seen), _expressed(chain)
        wanted = tables_of(channels)
        lines = [Line(c.seen, c.whole.slope, c.whole.offset, c.result) for c in channels]
        found = products(lines, wanted.codes, codes, chain.rounding, expressed)
        if found is None:
            raise _Impossible(Refusal("range", "no scale or bias is that small or large"))
        lines = [p.line(line) for p, line in zip(found, lines, strict=True)]
        got = linear_tables(codes, lines, chain.rounding)
        contract = codes_contract(channels, wanted, got, expressed)
        if contract is None:
            reason = "a clamp acts that no storage bound stands for"
            raise _Impossible(Refusal("table", reason))
        if contract.level > self._level:
            reason = f"would be {contract}, but only {self._level} is allowed"
            raise _Impossible(Refusal("numerics", reason))
        return found, contract

    def _refuse(self, chain: _Chain) -> Refusal | None:
        """Why the convolution is no gain, or not for this target."""
        made, target = self._made(chain), self.session.target
        conv = made[-1]
        behavior = self.session.behaviors.get(conv)
        assert behavior is not None
        types = [v.type for v in conv.operands], [v.type for v in conv.results]
        refusal = refuse_types(self.session, behavior, conv, *types)
        price = target.op_price(conv)
        saved = sum(target.op_price(link.op) for link in chain.links if not link.is_read)
        for op in reversed(made):
            op.erase()
        if refusal is None and price > saved:
            reason = f"{target.name}: costs {price:g}, what it replaces {saved:g}"
            refusal = Refusal("price", reason)
        return refusal

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        *constants, conv = self._made(match)
        for constant in constants:
            rewriter.insert(constant, match.op)
        rewriter.insert(conv, match.op, keep=match.op)
        rewriter.replace(match.op, conv.results)

    def _made(self, chain: _Chain) -> list[Operation]:
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
        made: list[Operation] = [make_constant(weights, UniformType(kinds[0]), store)]
        biases = np.array([p.bias for p in every], np.int32)
        if biases.any():
            made.append(make_constant(biases, UniformType(kinds[1]), store))
        attributes = {n: a for n, a in chain.op.attributes.items() if n != QPARAMS}
        conv = _OPS[len(shape)](
            chain.x,
            *(constant.results[0] for constant in made),
            element=element_type(chain.op.results[0].type),
            attributes=attributes,
            groups=count,
            rounding=chain.rounding.value,
        )
        return [*made, conv]


class _Impossible(Exception):
    """No products do."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def _expressed(chain: _Chain) -> str:
    params = qparams_of(chain.x)
    assert params is not None
    return params.expressed


def _strength(chain: _Chain) -> tuple[float, float, int]:
    contract, length = chain.verdict, len(chain.links)
    if isinstance(contract, Refusal):
        return float("inf"), 0.0, length
    return contract.level, contract.steps, -length


@dataclass(frozen=True)
class FormDepthwise(RulePass):
    """Affine functions per channel become depthwise convolutions; see the module."""

    name = "form-depthwise"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (AffineToDepthwise(session, Numerics.parse(self.numerics)),)
