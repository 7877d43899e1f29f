"""Turn elementwise chains on codes into lookup tables.

What depends on one value of at most 8 bits alone, element by element, is a table of its
results on the 256 codes: one op or many, on codes or on floats between a dequantize and
a quantize, with constants in between, also where x is used twice (x * sigmoid(x)).

    f_n(... f_1(x))                          ->  table[x]
    quantize(f_n(... f_1(dequantize(x))))    ->  table[x]
    rescale(table[x]), table[rescale(x)], table[table[x]]  ->  table[x]
    g(f(table[x]))                           ->  f((g . table)[x])      f moves elements,
                                                 g is a rescale or a table

Exact: entries are computed from what each op means, and floats are taken for the real
numbers they stand for, as `integerize` does; a result that no number of digits decides is
refused. In a module of floats entries are what float32 gives, op by op; where a runtime's
function (erf, an exponential) may put a code on either side of a tie, the table is `ties`, or
`bounded` if later ops make more of it. An op that copies elements commutes with every function of
one of them, so the last rule is exact, too.

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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.fixed_point import FixedPoint, Form
from qdialect.algebra.quantize import storage_dtype
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import TableOp, constant_array, constant_of, make_constant
from qdialect.ir.ops.base import ranked
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, UniformType, arithmetic_of
from qdialect.passes.folding.constant_evaluation import can_hold
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_types, with_qparams
from qdialect.passes.tables.elementwise_chains import ElementwiseChains
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

Array = NDArray[Any]

_SHARED = 64
"""Ops that are looked at for chains that share some of their links."""
_CASTS = (DCastOp.name, QCastOp.name, RescaleOp.name, SCastOp.name)


@dataclass(frozen=True)
class _Chain:
    """`ends`, the root of the match first, give functions of the codes of `root`; `links` are the
    ops that are dead without them."""

    ends: tuple[Operation, ...]
    root: SSAValue
    links: tuple[Operation, ...]


class ChainToTable(Rule[_Chain]):
    """f(x) = table[x] on the codes of x; see the module."""

    name = "chain-to-table"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._chains: ElementwiseChains | None = None

    def prepare(self, module: Operation) -> None:
        self._chains = ElementwiseChains(module, self.session)

    @property
    def chains(self) -> ElementwiseChains:
        """Those of the module."""
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
        ends, visited, pending = {op: None}, {op}, [op]
        while pending and len(visited) <= _SHARED:
            current = pending.pop()
            above = [value.owner for value in current.operands]
            near = [a for a in above if isinstance(a, Operation) and self._is_shared(a, root)]
            if current not in ends:
                near += [use.operation for use in current.results[0].uses]
            new = [other for other in dict.fromkeys(near) if other not in visited]
            visited.update(new)
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
        for op in match.links:
            if op.name in target.keep_whole:
                return Refusal("whole", f"{target.name} runs '{op.name}' whole")
        for op in match.ends:
            if not can_hold(op.results[0].type):
                return Refusal("dtype", f"no constants of type {op.results[0].type}")
            entries = self.chains.entries(op.results[0])
            if isinstance(entries, Refusal):
                return entries
            new = self._table(match.root, op, entries[0])
            price += target.op_price(new[1])
            reason = target.refuses(new[1], new[1].operand_types, new[1].result_types)
            erase_new(new)
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

    def _table(self, root: SSAValue, op: Operation, entries: Array) -> tuple[Operation, TableOp]:
        """The constant of `entries` and the lookup in place of `op`, in no block yet."""
        params = qparams_of(op.results[0])
        assert params is not None
        element = UniformType(params)
        constant = make_constant(entries, element, self.session.blobs)
        assert constant.result.type == ranked(element, [len(entries)])
        return constant, TableOp(root, constant, result_types=[op.results[0].type])

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        tables: list[tuple[Operation, TableOp]] = []
        for op in match.ends:
            entries = self.chains.entries(op.results[0])
            assert not isinstance(entries, Refusal)
            tables.append(self._table(match.root, op, entries[0]))
        for op, (constant, table) in zip(match.ends, tables, strict=True):
            rewriter.insert(constant, op)
            rewriter.insert(table, op, keep=op)
            self.chains.note(table)
        made = list(zip(match.ends, tables, strict=True))
        rewriter.check_replaced((op.results[0], table.result) for op, (_, table) in made)
        for op, (_, table) in made:
            rewriter.replace(op, table.results)


@dataclass(frozen=True)
class _Moved:
    """`lower` reads what `table` gave and `moves`, the lowest first, have moved."""

    lower: RescaleOp | TableOp
    moves: tuple[Operation, ...]
    table: TableOp


class FunctionOfMovedTable(Rule[_Moved]):
    """g(f(table[x])) = f((g . table)[x]) for a movement f, and a rescale or a table g.

    For example, where `ChainToTable` finds no chain, since the transpose moves elements:

        %1 = nn.table %x, %0 : (!x, tensor<256x!b>) -> tensor<2x4x!b>
        %2 = nn.transpose %1 perm [1, 0] : (tensor<2x4x!b>) -> tensor<4x2x!b>
        %3 = quant.rescale %2 : tensor<4x2x!b> to tensor<4x2x!c>

    becomes

        %1 = nn.table %x, %0 : (!x, tensor<256x!c>) -> tensor<2x4x!c>
        %3 = nn.transpose %1 perm [1, 0] : (tensor<2x4x!c>) -> tensor<4x2x!c>
    """

    name = "function-of-moved-table"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name, TableOp.name)

    def match(self, op: Operation) -> _Moved | None:
        assert isinstance(op, RescaleOp | TableOp)
        if self._entries(op, np.zeros(0, np.int64)) is None:
            return None
        value, moves = op.operands[0], list[Operation]()
        while isinstance(value.owner, Operation) and value.has_one_use():
            above = value.owner
            if isinstance(above, TableOp):
                known = constant_of(above.table) is not None
                return _Moved(op, tuple(moves), above) if moves and known else None
            behavior = self.session.behaviors.get(above)
            if behavior is None or behavior.movement is None or len(above.results) != 1:
                return None
            tied = tied_operands(above, behavior)
            if len(tied) != 1 or any(phi.has_border for phi in behavior.maps(above)):
                return None
            moves.append(above)
            value = above.operands[tied[0]]
        return None

    def check(self, match: _Moved) -> Contract | Refusal:
        result = qparams_of(match.lower.results[0])
        assert result is not None
        table = match.table
        kinds: list[Attribute] = [with_qparams(v, result) for v in (table.table, table.result)]
        reason = self.session.target.refuses(table, [table.input.type, kinds[0]], kinds[1:])
        if reason:
            return Refusal("target", f"{self.session.target.name}: {reason}")
        for move in match.moves:
            behavior = self.session.behaviors.get(move)
            assert behavior is not None
            operands = [v.type for v in move.operands]
            for index in tied_operands(move, behavior):
                operands[index] = with_qparams(move.operands[index], result)
            results = [with_qparams(move.results[0], result)]
            refusal = refuse_types(self.session, behavior, move, operands, results)
            if refusal:
                return refusal
        return EXACT

    def rewrite(self, match: _Moved, rewriter: Rewriter) -> None:
        table, result = match.table, qparams_of(match.lower.results[0])
        constant = constant_of(table.table)
        assert constant is not None and result is not None
        codes = constant_array(constant, self.session.blobs)
        entries = self._entries(match.lower, codes)
        assert entries is not None
        new = make_constant(entries, UniformType(result), self.session.blobs)
        rewriter.insert(new, table, keep=constant)
        value: SSAValue = table.result
        last: Operation = TableOp(
            table.input, new.result, result_types=[with_qparams(value, result)]
        )
        rewriter.insert(last, table, keep=table)
        for move in reversed(match.moves):
            behavior = self.session.behaviors.get(move)
            assert behavior is not None
            operands = list(move.operands)
            operands[tied_operands(move, behavior)[0]] = last.results[0]
            last = retyped(move, operands, [with_qparams(move.results[0], result)])
            rewriter.insert(last, move, keep=move)
        rewriter.replace(match.lower, last.results)

    def _entries(self, op: RescaleOp | TableOp, codes: Array) -> Array | None:
        """What `op` makes of codes; None where that is no one function of them."""
        source, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
        if source is None or result is None:
            return None
        if not all(q.is_per_tensor and is_integer(q) for q in (source, result)):
            return None
        if isinstance(op, RescaleOp):
            pairs = op.fixed_point
            if len(pairs) != 1 if pairs is not None else op.rounding.two_stage:
                return None
            (a,), (b,) = exact.quant_grids(source), exact.quant_grids(result)
            floats = None if pairs else arithmetic_of(op).floats(source.expressed)
            form = Form(op.rounding, FixedPoint(*pairs[0]) if pairs else None, floats)
            return form.codes(codes.astype(np.int64), a, b).astype(storage_dtype(result))
        constant = constant_of(op.table)
        if constant is None:
            return None
        places = codes.astype(np.int64) - source.storage.full_range[0]
        return constant_array(constant, self.session.blobs)[places]


@dataclass(frozen=True)
class FormTables(RulePass):
    """Turn elementwise chains on codes into lookup tables; see the module."""

    name = "form-tables"
    of = (ChainToTable, FunctionOfMovedTable)
