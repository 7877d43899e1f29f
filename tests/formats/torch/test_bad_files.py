"""Files that are no programs: one clear error each, never a traceback, a hang or an allocation.

Nothing here needs PyTorch: the file beside this one is read as it is.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdialect as qd
from qdialect.plugins.onnx.engine import OnnxRuntime

SMALL = Path(__file__).parent / "models" / "small.pt2"
VALUES: list[Any] = [
    *(None, -1, 0, 2**63, 1e400, "x", [], {}, [[[]]], True, 10**12, {"as_int": 3}),
    *({"as_name": "nope"}, {"as_tensor": {"name": "linear"}}, "aten.foo.default"),
    "Pow(Integer(9), Integer(99999))",
]


def rewritten(path: Path, change: Callable[[str, Any], Any]) -> Path:
    """The archive with its JSON entries changed."""
    with zipfile.ZipFile(SMALL) as archive, zipfile.ZipFile(path, "w") as result:
        for info in archive.infolist():
            data = archive.read(info)
            if info.filename.endswith(".json"):
                data = json.dumps(change(info.filename, json.loads(data))).encode()
            result.writestr(info.filename, data)
    return path


def places(document: Any) -> list[tuple[Any, Any]]:
    """All containers of a document with their keys."""
    found: list[tuple[Any, Any]] = []
    stack = [document]
    while stack:
        inner = stack.pop()
        entries = inner.items() if isinstance(inner, dict) else enumerate(inner)
        for key, value in entries:
            found.append((inner, key))
            if isinstance(value, dict | list):
                stack.append(value)
    return found


def test_a_file_is_read_without_pytorch() -> None:
    model = qd.load(SMALL)
    text = str(model)
    assert 'nn.key = "conv"' in text
    assert 'torch.node "aten.cdist.default"' in text
    assert '["scores", "distances", "steps"]' in text


def test_text_and_bytecode_have_kept_ops(tmp_path: Path) -> None:
    model = qd.load(SMALL)
    for name in ("m.mlir", "m.mlirbc"):
        qd.save(model, tmp_path / name)
        assert "x1 = #torch.value<0>" in str(qd.load(tmp_path / name))


def test_kept_ops_are_not_written_to_onnx(tmp_path: Path) -> None:
    with pytest.raises(qd.UnsupportedError, match=r"aten\.cdist\.default"):
        qd.save(qd.load(SMALL), tmp_path / "m.onnx")


def test_an_extent_beyond_64_bits(tmp_path: Path) -> None:
    def change(name: str, document: Any) -> Any:
        for inner, key in places(document):
            if key == "sizes":
                inner[key][0] = {"as_int": 2**63}
        return document

    with pytest.raises(qd.InputError, match="an extent of 9223372036854775808 is no 64-bit"):
        qd.load(rewritten(tmp_path / "m.pt2", change))


def test_random_bytes(tmp_path: Path) -> None:
    source = SMALL.read_bytes()
    generator = random.Random(5)
    path = tmp_path / "m.pt2"
    for _ in range(150):
        data = bytearray(source)
        if generator.random() < 0.3:
            del data[generator.randrange(len(data)) :]
        else:
            for _ in range(generator.choice((1, 2, 8))):
                data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        _loads_or_refuses(path)


def test_random_entries(tmp_path: Path) -> None:
    generator = random.Random(6)

    def change(name: str, document: Any) -> Any:
        if name.endswith("model.json") or generator.random() < 0.3:
            for _ in range(generator.choice((1, 1, 3))):
                container, key = generator.choice(places(document) or [({}, "x")])
                if isinstance(container, list):
                    container[key:] = [generator.choice(VALUES)]
                elif generator.random() < 0.3:
                    container.pop(key, None)
                else:
                    container[key] = generator.choice(VALUES)
        return document

    for _ in range(200):
        _loads_or_refuses(rewritten(tmp_path / "m.pt2", change))


def _loads_or_refuses(path: Path) -> None:
    with suppress(qd.QError):
        qd.load(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"m/data.pkl": b""}, "a pickle of torch.save"),
        ({"serialized_exported_program.json": b"{}"}, "older layout"),
        ({"m/x": b""}, "no archive of torch.export.save"),
        ({"m/archive_format": b"pt2"}, "has 0 models"),
        ({"m/archive_format": b"other"}, "says that it is no 'pt2'"),
    ],
)
def test_other_archives(entries: dict[str, bytes], message: str, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    (tmp_path / "m.pt2").write_bytes(stream.getvalue())
    with pytest.raises(qd.InputError, match=message):
        qd.load(tmp_path / "m.pt2")


def test_another_schema(tmp_path: Path) -> None:
    def change(name: str, document: Any) -> Any:
        if name.endswith("model.json"):
            document["schema_version"]["major"] = 9
        return document

    with pytest.raises(qd.InputError, match="schema 9, and 8 is read"):
        qd.load(rewritten(tmp_path / "m.pt2", change))


def test_pickled_tensors_are_not_opened(tmp_path: Path) -> None:
    def change(name: str, document: Any) -> Any:
        if name.endswith("weights_config.json"):
            document["config"]["conv.weight"]["use_pickle"] = True
        return document

    with pytest.raises(qd.InputError, match="never opened"):
        qd.load(rewritten(tmp_path / "m.pt2", change))


def test_only_functions_of_tensors_are_run(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs PyTorch")
    from qdialect.engines.local import Numpy

    text = """
    func.func @main(%x: tensor<3xf32> {nn.name = "x"}) -> tensor<3xf32> {
      %y = torch.node "TARGET" (%x) arguments {self = #torch.value<0>}
        : (tensor<3xf32>) -> tensor<3xf32>
      func.return %y : tensor<3xf32>
    }"""
    x = {"x": np.array([-1.0, 0.0, 2.0], np.float32)}

    def run(target: str) -> Any:
        (tmp_path / "m.mlir").write_text(text.replace("TARGET", target))
        model = qd.load(tmp_path / "m.mlir")
        engine = Numpy().open(model.module, model.ctx, source=None, optimize=False)
        return next(iter(engine(x).values()))

    np.testing.assert_array_equal(run("aten.relu.default"), [0.0, 0.0, 2.0])
    for target in ("aten.relu_.default", "aten.from_file.default", "aten.item.default"):
        with pytest.raises(qd.QError, match="no function of tensors"):
            run(target)
    for target in ("prim.print.default", "os.system.default", "aten.no_such_op.default"):
        with pytest.raises(qd.QError, match="cannot be evaluated"):
            run(target)


def test_runtime_refuses_kept_ops_by_name() -> None:
    model = qd.load(SMALL)
    with pytest.raises(qd.QError, match=r"aten\.cdist\.default"):
        OnnxRuntime().open(model.module, model.ctx, source=None, optimize=False)
