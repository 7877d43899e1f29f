"""Damaged models, made up from seeds: refused with an error, or read; nothing else.

QDIALECT_FUZZ=5000 makes so many instead of a few; `python -m tools.fuzz commands` does more.
"""

from __future__ import annotations

import os
import tracemalloc
from contextlib import suppress
from pathlib import Path

import onnx
import pytest

from qdialect.errors import InputError, QError
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from tests.support import damaged_models as fuzz_onnx

COUNT = int(os.environ.get("QDIALECT_FUZZ", "24"))
PIECES = 4


@pytest.mark.parametrize("piece", range(PIECES))
def test_damaged_models(piece: int) -> None:
    """Through the whole command, in a child with little memory."""
    fuzz_onnx.warm_up()
    models = [build() for build in fuzz_onnx.MODELS]
    counts, failures = fuzz_onnx.fuzz(piece, COUNT // PIECES, fuzz_onnx.Damage(piece, models).draw)
    assert failures == []
    assert counts["refused"] or COUNT < 100  # a few may all be read


@pytest.mark.parametrize("build", fuzz_onnx.MODELS)
def test_what_is_damaged_was_sound(build: object) -> None:
    model = build()  # pyright: ignore
    outcome = fuzz_onnx.try_model(model.SerializeToString())
    assert outcome.code == 0, outcome.error
    # Without VNNI the runtime saturates sums of pairs, and the input may stay what is written.
    ends = ("outputs have the same bits", "the input, so that is what is written")
    assert any(text in outcome.error for text in ends) and "left out" not in outcome.error


def test_a_failure_is_seen() -> None:
    assert "no error" in fuzz_onnx._failure(0, "", [])
    assert "SIGSEGV" in fuzz_onnx._failure(-11, "", [])
    assert "exit code 70" in fuzz_onnx._failure(70, "internal error", [])
    assert "written all the same" in fuzz_onnx._failure(1, "x: error: y", ["out.onnx"])
    assert "no error is told" in fuzz_onnx._failure(1, "", [])
    assert fuzz_onnx._failure(1, "x: error: y", []) == ""


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    """At every byte: an error that names the file, or a model that happens to be one."""
    data = fuzz_onnx.movement_net().SerializeToString()
    path, errors = tmp_path / "cut.onnx", list[QError]()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        try:
            import_model(path, new_context())
        except QError as error:
            errors.append(error)
    assert len(errors) > len(data) // 2
    assert all(isinstance(e, InputError) and str(e).startswith(f"{path}: ") for e in errors)


def test_memory_is_bounded_by_the_file(tmp_path: Path) -> None:
    """Extents that are claimed and not there cost nothing."""
    build = fuzz_onnx.quantized_net
    import_model(build(), new_context())  # what is imported once
    for extent in (2**31, 2**40, 2**62):
        for which in range(3):
            model = build()
            if which == 0:
                model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = extent
            elif which == 1:
                model.graph.initializer[2].dims[0] = extent
            else:
                entry = onnx.StringStringEntryProto(key="length", value=str(extent))
                tensor = model.graph.initializer[2]
                tensor.data_location = onnx.TensorProto.EXTERNAL
                location = onnx.StringStringEntryProto(key="location", value="w.bin")
                tensor.external_data.extend([location, entry])
            (tmp_path / "w.bin").write_bytes(b"1234")
            path = tmp_path / "net.onnx"
            path.write_bytes(model.SerializeToString())
            tracemalloc.start()
            with suppress(QError):
                import_model(path, new_context())
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 64 * path.stat().st_size + (4 << 20)
