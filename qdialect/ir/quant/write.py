"""The text of quant types: `<...>` after `!quant.uniform` and its sisters.

Which release of MLIR the text is for is a `TextVersion`: passed as an argument,
or set for a dynamic extent with `printing_for`.  Text for LLVM 22 spells `si`/`ui`
storage as `i`/`u`, as that release does itself, and there is none for float storage
and tables: InputError.  Without a version the text is that for LLVM 22, but for types
that release does not know that for LLVM 24.
"""

from __future__ import annotations

from functools import lru_cache

from typing_extensions import assert_never

from qdialect.algebra.float_text import FORMATS, float_text
from qdialect.algebra.qparams.parameters import Layout, QParams, Storage
from qdialect.errors import InputError
from qdialect.ir.quant.text_version import TextVersion, current_version
from qdialect.ir.quant.values import AnyParams, CalibratedRange


def uniform_text(qparams: QParams, version: TextVersion | None = None) -> str:
    """`<i8:f32, 5.000000e-01:3>`."""
    return _uniform_text(qparams, version or current_version())


def any_text(params: AnyParams, version: TextVersion | None = None) -> str:
    """`<i8<-8:7>:f32>`."""
    expressed = f":{params.expressed}" if params.expressed else ""
    return f"<{_storage_text(params.storage, version or current_version())}{expressed}>"


def calibrated_text(params: CalibratedRange) -> str:
    """`<f32<-1.000000e+00:1.000000e+00>>`."""
    return f"<{params.expressed}<{float_text(params.min)}:{float_text(params.max)}>>"


def quantile_text(storage: Storage, version: TextVersion | None = None) -> str:
    """`<ui1:f16, {-1.000000e+00,1.000000e+00}>`; `storage` must have a quantile table.

    LLVM 24 introduced it: there is no older spelling.
    """
    if (version or current_version()) is TextVersion.V22:
        raise _unknown_to_v22(storage)
    if storage.quantile is None:
        raise ValueError("quantile_text of a storage without a table")
    table = ",".join(map(float_text, storage.quantile.values()))
    bounds = "" if storage.is_full_range else f", <{storage.min}:{storage.max}>"
    return f"<{storage.spelling}:{storage.quantile.value_type}, {{{table}}}{bounds}>"


def _unknown_to_v22(storage: Storage) -> InputError:
    what = "a look-up table" if storage.quantile is not None else f"{storage.spelling} storage"
    return InputError(
        f"text of MLIR 22 cannot express {what}",
        code="unknown-to-version",
        notes=("text of MLIR 24 can: --quant-text=v24",),
    )


def _spelling(storage: Storage, version: TextVersion | None) -> str:
    if version is not TextVersion.V24 and storage.keyword in ("si", "ui"):
        return f"{'i' if storage.signed else 'u'}{storage.width}"
    return storage.spelling


@lru_cache(maxsize=64)
def _storage_text(storage: Storage, version: TextVersion | None) -> str:
    if version is TextVersion.V22 and (storage.is_float or storage.quantile is not None):
        raise _unknown_to_v22(storage)
    if storage.quantile is not None:
        return f"!quant.quantile{quantile_text(storage, version)}"
    bounds = "" if storage.is_full_range else f"<{storage.min}:{storage.max}>"
    return _spelling(storage, version) + bounds


@lru_cache(maxsize=256)
def _uniform_text(qparams: QParams, version: TextVersion | None) -> str:
    head = f"<{_storage_text(qparams.storage, version)}:{qparams.expressed}"
    if qparams.layout is Layout.TENSOR:
        return f"{head}, {_param_text(float_text(qparams.scale), qparams.zero_point)}>"
    scales = qparams.scale_list()
    if qparams.layout is Layout.BLOCK:
        texts = [_block_scale_text(scale, qparams.expressed) for scale in scales]
    else:
        texts = [float_text(scale) for scale in scales]
    params = [*map(_param_text, texts, qparams.zero_point_list())]
    if qparams.layout is Layout.AXIS:
        return f"{head}:{qparams.axis}, {{{','.join(params)}}}>"
    if qparams.layout is Layout.BLOCK:
        blocks = ", ".join(f"{axis}:{size}" for axis, size in qparams.blocks)
        return f"{head}:{{{blocks}}}, {_braced(params, qparams.grid)}>"
    assert_never(qparams.layout)


def _param_text(scale: str, zero_point: int) -> str:
    return f"{scale}:{zero_point}" if zero_point else scale


def _block_scale_text(scale: float, expressed: str) -> str:
    """Sub-channel scales are values of the expressed type; all others are doubles.

    The literal is read as a double and must then be in the range of the expressed
    type: where rounding to six digits leaves it (mlir-opt rejects its own text
    there), the digits of the double are printed.
    """
    text = float_text(scale, expressed)
    fmt = FORMATS[expressed]
    if text.startswith("0x") or fmt.smallest <= float(text) <= fmt.largest:
        return text
    return float_text(scale)


def _braced(params: list[str], grid: tuple[int, ...]) -> str:
    """The parameters in one pair of braces per grid dimension."""
    for extent in reversed(grid):
        params = [
            f"{{{', '.join(params[start : start + extent])}}}"
            for start in range(0, len(params), extent)
        ]
    return params[0]
