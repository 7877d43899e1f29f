"""What stored integers mean, beside them: attributes that any reader keeps or drops.

An operation that makes what a value of the model is carries `key` (its stable
names), `scale`, `zero_point`, `axis` (where they vary along a dimension, as laid out),
`order` (the dimension of the model's value that each of its own is; absent where they are the
same) and `storage` (absent for signless integers that are signed). Arguments and results of
functions carry the same with the prefix `nn.`, which MLIR asks for there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, TensorType, f64, i64
from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.laid_out import Order, identity_order

INTERFACE = "nn."
MARKED_KEY = "key"
SCALE, ZERO_POINT, AXIS, ORDER, STORAGE = "scale", "zero_point", "axis", "order", "storage"


def marks(params: QParams, order: Order) -> dict[str, Attribute]:
    """The attributes of a value with `params` that is laid out in `order`; none for blocks."""
    if params.layout.value == "block":
        return {}
    attributes: dict[str, Attribute] = {
        SCALE: DenseArrayBase.from_list(f64, params.scale_list()),
        ZERO_POINT: DenseArrayBase.from_list(i64, params.zero_point_list()),
    }
    if params.axis is not None:
        attributes[AXIS] = IntegerAttr(order.index(params.axis), i64)
    if order != identity_order(len(order)):
        attributes[ORDER] = DenseArrayBase.from_list(i64, list(order))
    if not params.storage.signed:
        attributes[STORAGE] = StringAttr(f"{params.storage.keyword}{params.storage.width}")
    return attributes


def marked_order(attributes: Mapping[str, Attribute], rank: int) -> Order:
    """The order that marks state."""
    stated = attributes.get(ORDER)
    return identity_order(rank) if stated is None else tuple(cast("Any", stated).get_values())


def marked_type(
    attributes: Mapping[str, Attribute], kind: Attribute, prefix: str = ""
) -> Attribute | None:
    """The quantized type that marks give the integers of `kind`, as they are laid out;
    None without marks, or with marks that are none of ours."""
    scale, zero = attributes.get(prefix + SCALE), attributes.get(prefix + ZERO_POINT)
    if not (isinstance(scale, DenseArrayBase) and isinstance(zero, DenseArrayBase)):
        return None
    if not isinstance(kind, TensorType):
        return None
    tensor = cast("TensorType[Any]", kind)
    stated = attributes.get(prefix + STORAGE)
    storage = stated.data if isinstance(stated, StringAttr) else str(tensor.element_type)
    scales = [float(s) for s in cast("Any", scale).get_values()]
    zeros = [int(z) for z in cast("Any", zero).get_values()]
    axis = attributes.get(prefix + AXIS)
    if isinstance(axis, IntegerAttr):
        element = UniformType.per_axis(storage, axis.value.data, scales, zeros)
    elif len(scales) == len(zeros) == 1:
        element = UniformType.per_tensor(storage, scales[0], zeros[0])
    else:
        return None
    return TensorType(element, list(tensor.get_shape()))
