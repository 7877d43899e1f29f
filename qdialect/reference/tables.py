"""The kernel of `nn.table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect.quant import quant_element
from qdialect.reference.values import Array, Evaluation, Kernel


def _table(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """One entry per element, by the number of its code from the lowest one up."""
    codes, entries = operands
    element = quant_element(op.operands[0].type)
    assert element is not None
    storage = element.qparams.storage
    lowest = -(1 << (storage.width - 1)) if storage.signed else 0
    return [np.take(entries, codes.astype(np.int64) - lowest)]


KERNELS: Mapping[str, Kernel] = {nn.TableOp.name: _table}
