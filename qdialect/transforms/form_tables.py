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
passes that fold those. Values that something else uses stay.

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
from qdialect.dialects.nn import TableOp, make_constant
from qdialect.dialects.nn.base import ranked
from qdialect.dialects.quant import DCastOp, QCastOp, RescaleOp, SCastOp, UniformType
from qdialect.numerics.contract import Contract
from qdialect.rewrite import Refusal, Rewriter, Rule
from qdialect.transforms.chains import Chains
from qdialect.transforms.constant_evaluation import can_hold
from qdialect.transforms.rule_pass import RulePass

_CASTS = (DCastOp.name, QCastOp.name, RescaleOp.name, SCastOp.name)


@dataclass(frozen=True)
class _Chain:
    """`op` gives a function of the codes of `root`; `links` go away with it."""

    op: Operation
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
            return _Chain(op, result, ())
        root = self.chains.root(result)
        if root is None or root is result or qparams_of(result) is None:
            return None
        if not self.chains.needed(result):
            return None
        links = self._links(op)
        computing = any(self._computes(link) for link in links)
        done = len(links) == 1 and op.name == TableOp.name
        return _Chain(op, root, links) if computing and not done else None

    def _links(self, op: Operation) -> tuple[Operation, ...]:
        """`op` and what nothing else keeps alive."""
        links, pending = {op: None}, [op]
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
        target, op = self.session.target, match.op
        if not can_hold(op.results[0].type):
            return Refusal("dtype", f"no constants of type {op.results[0].type}")
        params, source = qparams_of(op.results[0]), qparams_of(match.root)
        assert params is not None and source is not None
        entries = self.chains.entries(op.results[0])
        if isinstance(entries, Refusal):
            return entries
        made = self._table(match)
        price, saved = target.op_price(made), sum(map(target.op_price, match.links))
        types = [v.type for v in made.operands]
        reason = target.refuses(made, types, [r.type for r in made.results])
        constant = made.operands[1].owner
        made.erase()
        if isinstance(constant, Operation):
            constant.erase()
        if reason:
            return Refusal("target", f"{target.name}: {reason}")
        if price > saved:
            return Refusal("price", f"a lookup costs {price:g}, the ops it replaces {saved:g}")
        return entries[1]

    def _table(self, match: _Chain) -> TableOp:
        """The lookup and its constant, in no block yet."""
        result = match.op.results[0]
        entries, params = self.chains.entries(result), qparams_of(result)
        assert params is not None and not isinstance(entries, Refusal)
        element = UniformType(params)
        constant = make_constant(entries[0], element, self.session.blobs)
        assert constant.result.type == ranked(element, [len(entries[0])])
        return TableOp(match.root, constant, result_types=[result.type])

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        made = self._table(match)
        constant = made.operands[1].owner
        assert isinstance(constant, Operation)
        rewriter.insert(constant, match.op)
        rewriter.insert(made, match.op, keep=match.op)
        self.chains.note(made)
        rewriter.replace(match.op, made.results)


@dataclass(frozen=True)
class FormTables(RulePass):
    """Turn elementwise chains on codes into lookup tables; see the module."""

    name = "form-tables"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (ChainToTable(session),)
