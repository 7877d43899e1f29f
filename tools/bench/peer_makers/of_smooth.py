"""ONNX Runtime's static quantizer with SmoothQuant, as Neural Compressor has it.

A program of its own: `python of_smooth.py FLOAT.onnx SAMPLES.npz OUT.onnx`, where the samples have
a leading sample axis.  Settings are those of the static tool beside it: QDQ, u8 values, i8 weights
per channel.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Reader(CalibrationDataReader):
    """The samples in order, again and again."""

    def __init__(self, path: str) -> None:
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        count = len(next(iter(arrays.values())))
        self.samples = [{name: array[i] for name, array in arrays.items()} for i in range(count)]
        self.left = iter(self.samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)

    def rewind(self) -> None:
        self.left = iter(self.samples)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return iter(self.samples)


def main() -> None:
    """Quantize."""
    source, data, target = sys.argv[1:]
    quantize_static(
        source,
        target,
        Reader(data),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        extra_options={"SmoothQuant": True, "SmoothQuantFolding": True},
    )


if __name__ == "__main__":
    main()
