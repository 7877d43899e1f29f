"""The qparams that a target allows on the values of a selection.

A port of a selected op has one domain for each kernel of the target. A value has the domains
of the result port that makes it, met with those of the operand ports that take it, past ops
that hand qparams on (`grids`): what every kernel around it takes. Where two users have nothing
in common, the later one gets codes of its own, by a rescale in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.qparams.domains import ANY_DOMAIN, Domain
from qdialect.ir.behaviors import PortKind
from qdialect.ir.quant import RescaleOp
from qdialect.quantizer.probed import probed_domains
from qdialect.quantizer.selection import Selection, runtime_tied
from qdialect.quantizer.values import only_user, users
from qdialect.targets.base import Target

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
