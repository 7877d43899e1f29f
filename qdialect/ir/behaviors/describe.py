"""A declaration in words, from its data: what passes may derive from it."""

from __future__ import annotations

from qdialect.ir.behaviors.declaration import Accumulator, Behavior, Port, PortKind

KINDS = {
    PortKind.REQUANT: "requantizing: qparams as they come",
    PortKind.TIED: "tied: the qparams of the other tied ports",
    PortKind.FIXED: "fixed: the op or the target says which qparams",
    PortKind.BIAS: "bias: i32 in the product of the scales",
    PortKind.PLAIN: "plain: never quantized",
}


def described(behavior: Behavior) -> list[tuple[str, str]]:
    """Rows of (what, how): the ports, then what else is declared."""
    ports = [(f"operand {p.role}", _port(p)) for p in behavior.operands]
    if behavior.variadic and ports:
        ports[-1] = (f"{ports[-1][0]}...", ports[-1][1])
    ports += [(f"result {p.role}", _port(p)) for p in behavior.results]
    return ports + [(name, text) for name, text in _facts(behavior) if text]


def _port(port: Port) -> str:
    where = "; also per axis" if port.axes is None else ""
    only = "" if port.storages is None else f"; only {', '.join(port.storages)}"
    return f"{KINDS[port.kind]}{where}{only}"


def _facts(b: Behavior) -> list[tuple[str, str]]:
    return [
        ("moves", "copies elements, so casts and rescales may pass" if b.movement else ""),
        ("order", "commutes with monotone maps" if b.order_preserving else ""),
        ("order of operands", "all that plain results tell" if b.compares else ""),
        ("clamps", "min(max(x, low), high)" if b.clamp or b.as_clamp else ""),
        ("sums products", "" if b.accumulator is None else _accumulator(b, b.accumulator)),
        ("activation", "min(max(sum, low), high)" if b.activation else ""),
        ("affine", "slope * x + offset where the others are constants" if b.affine else ""),
        ("elementwise", "yes" if b.elementwise or b.pointwise else ""),
        ("as a table", "f(x) of one code" if b.pointwise else ""),
        ("arithmetic", "exact on rationals" if b.arithmetic else ""),
        ("shares", "exp(x) over its sum along a dimension" if b.shares else ""),
        ("exact step", "of sums of one scale" if b.grid else ""),
        ("error", "a bound on how far it carries one" if b.gain or b.accumulator else ""),
        ("must not be zero", ", ".join(b.operand_port(n).role for n in b.nonzero)),
    ]


def _accumulator(behavior: Behavior, sums: Accumulator) -> str:
    lhs, rhs = (behavior.operand_port(n).role for n in (sums.lhs, sums.rhs))
    text = f"of {lhs} and {rhs}, in i32 with the product of their scales"
    return text if sums.bias is None else f"{text}, plus {behavior.operand_port(sums.bias).role}"
