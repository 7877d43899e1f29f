"""Turn elementwise chains on codes into lookup tables.

What depends on one value of at most 8 bits alone, element by element, is a table of its
results on the 256 codes: one op or many, on codes or on floats between a dequantize and
a quantize, with constants in between, also where x is used twice (x * sigmoid(x)).

    f_n(... f_1(x))                          ->  table[x]
    quantize(f_n(... f_1(dequantize(x))))    ->  table[x]
    rescale(table[x]), table[rescale(x)], table[table[x]]  ->  table[x]

Exact: entries are computed from what each op means, and floats are taken for the real
numbers they stand for, as `integerize` does; a result that no number of digits decides is
refused. In a module of floats entries are what float32 gives, op by op; where a runtime's
function (erf, an exponential) may put a code on either side of a tie, the table is `ties`, or
`bounded` if later ops make more of it.

A chain is replaced where the target's price of a lookup is not higher than that of the
ops which go away with it. Chains of rescales, casts and clamps only are left to the
passes that fold those. Values that something else uses stay; chains that share what they
compute (a swish that is rescaled twice) become tables together.

For example

    %0 = quant.dcast %x : !a to !f
    %1 = nn.sigmoid %0 : (!f) -> !f
    %2 = nn.mul %0, %1 : (!f, !f) -> !f
    %3 = quant.qcast %2 : !f to !b

becomes

    %0 = nn.constant dense<[-6, -3, 2, 9]> : tensor<4xi8> : tensor<4x!s>
    %3 = nn.table %x, %0 : (!a, tensor<4x!s>) -> !b
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.context import QContext
from qdialect.numerics.contract import Contract
from qdialect.ops import TableOp, make_constant
from qdialect.ops.base import ranked
from qdialect.passes.folding.constant_evaluation import can_hold
from qdialect.passes.rule_pass import RulePass
from qdialect.passes.tables.elementwise_chains import Chains
from qdialect.passes.tables.moved_tables import FunctionOfMovedTable
from qdialect.quant import DCastOp, QCastOp, RescaleOp, SCastOp, UniformType
from qdialect.rewrite import Refusal, Rewriter, Rule

_SHARED = 64
"""Ops that are looked at for chains that share some of their links."""
_CASTS = (DCastOp.name, QCastOp.name, RescaleOp.name, SCastOp.name)


@dataclass(frozen=True)
class _Chain:
    """`ends`, the first of which was asked about, give functions of the codes of `root`;
    `links` go away with them."""

    ends: tuple[Operation, ...]
    root: SSAValue
    links: tuple[Operation, ...]


class ChainToTable(Rule[_Chain]):
    """f(x) = table[x] on the codes of x; see the module."""

    name = "chain-to-table"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._chains: Chains | None = None

    def prepare(self, module: Operation) -> None:
        self._chains = Chains(module, self.session)

    @property
    def chains(self) -> Chains:
        assert self._chains is not None
        return self._chains

    def roots(self) -> Iterable[str]:
        return (*_CASTS, *self.session.behaviors.names_with(lambda b: b.elementwise))

    def match(self, op: Operation) -> _Chain | None:
        if len(op.results) != 1:
            return None
        result = op.results[0]
        if op in self.chains.per_axis and self._computes(op):
            return _Chain((op,), result, ())
        self.chains.renew(op)
        root = self.chains.root(result)
        if root is None or root is result or qparams_of(result) is None:
            return None
        if not self.chains.needed(result):
            return None
        ends = (op,)
        links = self._links(ends)
        if not any(map(self._computes, links)):
            # What computes may be shared with other chains: they go together, or not at all.
            ends = self._together(op, root)
            links = self._links(ends)
        computing = any(map(self._computes, links))
        done = len(links) == 1 and op.name == TableOp.name
        return _Chain(ends, root, links) if computing and not done else None

    def _together(self, op: Operation, root: SSAValue) -> tuple[Operation, ...]:
        """`op` and the ends of other chains from `root` that share links with it."""
        ends, seen, pending = {op: None}, {op}, [op]
        while pending and len(seen) <= _SHARED:
            current = pending.pop()
            above = [value.owner for value in current.operands]
            near = [a for a in above if isinstance(a, Operation) and self._is_shared(a, root)]
            if current not in ends:
                near += [use.operation for use in current.results[0].uses]
            new = [other for other in dict.fromkeys(near) if other not in seen]
            seen.update(new)
            pending += new
            ends.update((other, None) for other in new if self.chains.needed(other.results[0]))
        is_whole = not pending and all(qparams_of(end.results[0]) is not None for end in ends)
        return tuple(ends) if is_whole else (op,)

    def _is_shared(self, op: Operation, root: SSAValue) -> bool:
        """Whether nothing but chains from `root` uses what `op` computes in one."""
        if not self.chains.is_link(op) or self.chains.root(op.results[0]) is not root:
            return False
        return not self.chains.needed(op.results[0])

    def _links(self, ends: tuple[Operation, ...]) -> tuple[Operation, ...]:
        """`ends` and what nothing else keeps alive."""
        links, pending = dict.fromkeys(ends), list(ends)
        while pending:
            for value in pending.pop().operands:
                owner = value.owner
                if not isinstance(owner, Operation) or owner in links:
                    continue
                if self.chains.is_link(owner) and all(u.operation in links for u in value.uses):
                    links[owner] = None
                    pending.append(owner)
        return tuple(links)

    def _computes(self, op: Operation) -> bool:
        """Whether `op` is more than a clamp or a cast."""
        behavior = self.session.behaviors.get(op)
        return behavior is not None and not behavior.order_preserving

    def check(self, match: _Chain) -> Contract | Refusal:
        if not match.links:
            return Refusal("per-axis", "one table for parameters that differ along a dimension")
        target, price, contracts = self.session.target, 0.0, list[Contract]()
        for op in match.ends:
            if not can_hold(op.results[0].type):
                return Refusal("dtype", f"no constants of type {op.results[0].type}")
            entries = self.chains.entries(op.results[0])
            if isinstance(entries, Refusal):
                return entries
            made = self._table(match.root, op)
            price += target.op_price(made)
            types = [v.type for v in made.operands]
            reason = target.refuses(made, types, [r.type for r in made.results])
            constant = made.operands[1].owner
            made.erase()
            if isinstance(constant, Operation):
                constant.erase()
            if reason:
                return Refusal("target", f"{target.name}: {reason}")
            contracts.append(entries[1])
        saved = sum(map(target.op_price, match.links))
        if price > saved:
            lookups = (
                "a lookup costs" if len(match.ends) == 1 else f"{len(match.ends)} lookups cost"
            )
            return Refusal("price", f"{lookups} {price:g}, the ops it replaces {saved:g}")
        return max(contracts, key=lambda contract: (contract.level, contract.steps))

    def _table(self, root: SSAValue, op: Operation) -> TableOp:
        """The lookup in place of `op` and its constant, in no block yet."""
        result = op.results[0]
        entries, params = self.chains.entries(result), qparams_of(result)
        assert params is not None and not isinstance(entries, Refusal)
        element = UniformType(params)
        constant = make_constant(entries[0], element, self.session.blobs)
        assert constant.result.type == ranked(element, [len(entries[0])])
        return TableOp(root, constant, result_types=[result.type])

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        tables = [self._table(match.root, op) for op in match.ends]
        for op, made in zip(match.ends, tables, strict=True):
            constant = made.operands[1].owner
            assert isinstance(constant, Operation)
            rewriter.insert(constant, op)
            rewriter.insert(made, op, keep=op)
            self.chains.note(made)
            rewriter.replace(op, made.results)


@dataclass(frozen=True)
class FormTables(RulePass):
    """Turn elementwise chains on codes into lookup tables; see the module."""

    name = "form-tables"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (ChainToTable(session), FunctionOfMovedTable(session))
