"""What a target's `refuses` takes of qparams, found out by asking.

A domain can be read; a hook can only be asked. One that refuses scales which are no powers of two,
or most zero points, would refuse all that is quantized freely. So it is asked about a ReLU on a few
qparams, and what they have in common that it takes is a domain like any other:

    scale 0.3, zero point 3    refused
    scale 0.25, zero point 3   refused
    scale 0.25, zero point 0   taken        scales of 2^n, zero points 0 and -128
    scale 0.25, zero point -128  taken

That is a guess about other qparams and ops; each op is asked for before it is made.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import TensorType
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.qparams.domains import ANY_DOMAIN, Domain, Scales
from qdialect.ir.ops import ReluOp
from qdialect.ir.quant import UniformType
from qdialect.targets.base import Target

_ANY_SCALE, _POWER, _ANY_ZERO = 0.3, 0.25, 3
_STORAGES = ("i8", "u8", "i16")


def probed_domains(target: Target) -> tuple[Domain, ...]:
    """The domains of 8 and 16 bits that a hook seems to take; nothing where it shows none, or
    there is no hook."""
    if not target.overrides_refuses:
        return ()
    found = [_probed(target, Storage.of(name)) for name in _STORAGES]
    known = tuple(domain for domain in found if domain is not None)
    return known if any(domain.is_restricted for domain in known) else ()


def _probed(target: Target, storage: Storage) -> Domain | None:
    """The domain on one storage; None if the target takes nothing on it."""
    middle = 0 if storage.signed else (storage.min + storage.max + 1) // 2
    zeros = list(dict.fromkeys((_ANY_ZERO, middle, storage.min, storage.max)))
    for scale in (_ANY_SCALE, _POWER):
        taken = [zero for zero in zeros if _takes(target, storage, scale, zero)]
        if not taken:
            continue
        domain = replace(ANY_DOMAIN, storages=(storage,))
        if scale == _POWER:
            domain = replace(domain, scales=(Scales.parse("2^n"),))
        if _ANY_ZERO not in taken:
            domain = replace(domain, zeros=tuple((zero, zero) for zero in taken))
        return domain
    return None


def _takes(target: Target, storage: Storage, scale: float, zero: int) -> bool:
    kind = TensorType(UniformType(QParams.per_tensor(storage, scale, zero)), [1, 8, 8, 8])
    op = ReluOp(create_ssa_value(kind))
    refused = target.refuses(op, [kind], [kind])
    op.drop_all_references()
    return refused is None
