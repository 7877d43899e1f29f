"""Makes weights of our store of the resources that constants name.

What `nn.constant` holds is `#nn.blob` here and `dense_resource` in bytecode, and in text for other
tools; the bytes stay where they are, in the mapped file:

    nn.constant dense_resource<w> : tensor<100xf32>    becomes    #nn.blob<"w" : tensor<100xf32>>
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, StringAttr, TensorType

from qdialect.errors import InputError
from qdialect.ir.context import QContext
from qdialect.ir.ops.constants import BlobAttr, ConstantOp, element_name
from qdialect.ir.ops.locations import op_where
from qdialect.ir.weights import DTYPES
from qdialect.plugins.mlir.resources import ResourceTable


def take_weights(module: ModuleOp, ctx: QContext) -> None:
    """Put the weights of constants into the store of the session.

    InputError (`bad-resource`) for a resource that is not there or of another length.
    """
    builtin = ctx.get_optional_dialect("builtin")
    table = builtin and builtin.get_interface(OpAsmDialectInterface)
    if not isinstance(table, ResourceTable):
        return
    for op in module.walk():
        if type(op) is ConstantOp:
            value: object = op.properties.get("value")
            if isinstance(value, DenseResourceAttr):
                try:
                    op.properties["value"] = _weight(value, table, ctx)
                except ValueError as error:
                    where = op_where(op)
                    raise InputError(str(error), where=where, code="bad-resource") from None


def _weight(value: DenseResourceAttr, table: ResourceTable, ctx: QContext) -> BlobAttr:
    key = value.resource_handle.data
    kind = value.type
    if not isinstance(kind, TensorType):
        raise ValueError(f"resource '{key}' is of no tensor type")
    tensor = cast("TensorType[Any]", kind)
    element, shape = element_name(tensor.element_type), tensor.get_shape()
    blob = table.blob(key)
    if blob is None:
        raise ValueError(f"resource '{key}' is not in the file")
    if element not in DTYPES:
        raise ValueError(f"resource '{key}' is of elements {element}, which weights cannot be")
    size = DTYPES[element][1]
    for extent in shape:
        size *= extent
    if size != blob.data.nbytes:
        raise ValueError(f"resource '{key}' is {blob.data.nbytes} bytes long, not {size}")
    return BlobAttr(StringAttr(ctx.blobs.add_named(key, blob.data, element, shape)), tensor)
