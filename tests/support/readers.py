"""The readers that are fuzzed: what each is given, sound seeds for it, and what must hold.

A reader takes a file and either succeeds (then what it read holds together) or raises one
QError; whatever else comes out of it is a defect.
"""

# pyright: basic
from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any

from tests.generators import damage as damage_bytes
from tests.generators.networks import random_model
from tests.support import damaged_models as fuzz_onnx

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "qdialect"
LARGEST_SEED = 3000
SECRET = b"secret of somebody else"


@dataclass(frozen=True)
class Reader:
    """How one reader is fuzzed."""

    suffix: str
    #: files whose lines are watched, as beginnings of paths in the package
    watched: tuple[str, ...]
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], None]
    damage: Callable[[random.Random, Sequence[bytes]], Callable[[bytes], bytes]]

    def prefixes(self) -> list[str]:
        return [str(PACKAGE / name) for name in self.watched]


# -- MLIR text ----------------------------------------------------------------------------


def _texts() -> list[bytes]:
    """Small lit tests, one module each, and texts of things they have none of."""
    found: list[bytes] = []
    for path in sorted((ROOT / "lit_tests").rglob("*.mlir")):
        for part in path.read_text().split("// -----"):
            lines = [line for line in part.splitlines() if not line.lstrip().startswith("//")]
            text = "\n".join(lines).strip() + "\n"
            if 1 < len(text) < LARGEST_SEED:
                found.append(text.encode())
    return found + [text.encode() for text in _SPECIAL_TEXTS]


_SPECIAL_TEXTS = (
    "#a = dense<[1.0, 2.0]> : tensor<2xf32>\n!t = tensor<2xf32>\n"
    "func.func @f() -> !t {\n  %0 = arith.constant #a\n  return %0 : !t loc(#l)\n}\n"
    '#l = loc(fused<"x">["f.py":1:2, callsite("a" at "b")])\n',
    'module attributes {nn.blobs = "in.safetensors"} {\n  func.func @f() -> tensor<4xf32> {\n'
    '    %0 = nn.constant #nn.blob<"a" : tensor<4xf32>> : tensor<4xf32>\n'
    "    return %0 : tensor<4xf32>\n  }\n}\n",
    'func.func @f() -> tensor<2xi8> {\n  %0 = "acme.x"() {v = dense_resource<r> : '
    "tensor<2xi8>} : () -> tensor<2xi8>\n  return %0 : tensor<2xi8>\n}\n{-#\n  dialect_resources: {"
    '\n    builtin: {\n      r: "0x040000000102"\n    }\n  },\n  external_resources: {\n    '
    'mlir_reproducer: {\n      pipeline: "builtin.module(dce)",\n      verify_each: true\n    }\n'
    "  }\n#-}\n",
    "func.func @f(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {\n  cf.cond_br %c, ^a, "
    "^b(%x : tensor<4xf32>)\n^a:\n  cf.br ^b(%x : tensor<4xf32>)\n^b(%y: tensor<4xf32>):\n  "
    '%z = call @f(%y, %c) : (tensor<4xf32>, i1) -> tensor<4xf32>\n  "acme.y"() ({\n  ^c:\n  }) '
    "{f = @f, g = [@f::@g], h = array<i32: 1, 2>, i = affine_map<(d0) -> (d0 + 1)>} : () -> ()\n  "
    "return %z : tensor<4xf32>\n}\n",
    "func.func @f(%x: tensor<2x4x!quant.uniform<i8<-100:100>:f32:1, {0.1, 0.2:3, 0.3, 0.4:-5}>>, "
    "%y: tensor<4x4x!quant.uniform<u4:f32:{0:2, 1:2}, {{0.1, 0.2}, {0.5:1, 0.25}}>>, "
    "%z: tensor<*x!quant.calibrated<f32<-0.5:1.5>>>) {\n  return\n}\n",
)


def _read_mlir(path: Path) -> None:
    import qdialect as qd
    from qdialect.plugins.mlir.read import parser as mlir_parser
    from qdialect.plugins.mlir.write import module_text

    # What is meant for large modules takes part on small ones.
    mlir_parser.TEMPLATES_ABOVE = 0
    model = qd.load(path, _session())
    module_text(model.module, model.ctx)


@cache
def _known() -> Any:
    from qdialect.ir.context import new_context

    return new_context(allow_unregistered=True)


def _session() -> Any:
    """A new session; looking for plug-ins each time would take longer than reading."""
    from qdialect.ir.weights import BlobStore

    session = _known().clone()
    session.blobs = BlobStore()
    return session


# -- modules in binary ---------------------------------------------------------------------


def _bytecode_files() -> list[bytes]:
    """The small texts in all versions of the format."""
    from qdialect.errors import QError
    from qdialect.plugins.mlir.read import read_module
    from qdialect.plugins.mlir.write import bytecode

    found: list[bytes] = []
    for index, text in enumerate(_texts()):
        session = _session()
        try:
            module = read_module(text.decode(), session)
            pieces = bytecode(module, session, version=index % 7)
        except QError:
            continue
        found.append(b"".join(bytes(piece) for piece in pieces))
    return found


class _Bytecode:
    """Damage to any byte: another, some less, some more, or some of another file."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self._draw = draw
        self._seeds = seeds

    def change(self, data: bytes) -> bytes:
        draw = self._draw
        for _ in range(draw.choice((1, 1, 2, 4))):
            place = draw.randrange(len(data) + 1)
            kind = draw.randrange(6)
            if kind < 3:
                byte = draw.choice((0, 1, 2, 3, 0x80, 0xCB, 255, draw.randrange(256)))
                data = data[:place] + bytes((byte,)) + data[place + 1 :]
            elif kind == 3:
                data = data[:place] + data[place + draw.randrange(1, 9) :]
            elif kind == 4:
                data = data[:place] + draw.randbytes(draw.randrange(1, 10)) + data[place:]
            else:
                other = draw.choice(self._seeds)
                start = draw.randrange(len(other) + 1)
                data = data[:place] + other[start : start + draw.randrange(64)] + data[place:]
        return data[: damage_bytes.MOST]


def _read_bytecode(path: Path) -> None:
    import qdialect as qd
    from qdialect.plugins.mlir.write import bytecode, module_text

    model = qd.load(path, _session())
    module_text(model.module, model.ctx)
    bytecode(model.module, model.ctx)


# -- ONNX ---------------------------------------------------------------------------------


def _models() -> list[bytes]:
    models = [build() for build in fuzz_onnx.MODELS]
    models += [random_model(seed, 5) for seed in range(16)]
    return [model.SerializeToString() for model in models]


def _read_onnx(path: Path) -> None:
    import qdialect as qd

    qd.load(path, _session())


class _Models:
    """Damage to the messages of a model."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self._damage = fuzz_onnx.Damage(0, [])
        self._damage.random = draw

    def change(self, data: bytes) -> bytes:
        import onnx

        model = onnx.ModelProto()
        try:
            model.ParseFromString(data)
            self._damage.models = [model]
            return self._damage.draw()
        except Exception:  # bytes that are no message any more, or texts that are none
            return self._damage._bytes(data or b" ")


# -- profiles -----------------------------------------------------------------------------


def _profiles() -> list[bytes]:
    import numpy as np

    from qdialect.quantizer.profile.file import profile_text
    from qdialect.quantizer.profile.record import Entry, Profile, Settings
    from qdialect.quantizer.profile.sketch import observe, observe_rows, rounded

    found: list[bytes] = []
    for kind in ("none", "range", "bins"):
        parts: list[Profile] = []
        for index in range(3):
            rng, entries = np.random.default_rng(index), dict[str, Entry]()
            for key in ("a", "b/c"):
                values = rng.normal(size=(2, 9)).astype(np.float32)
                values[0, :4] = (0.0, np.nan, -np.inf, 1e-40)
                rows = None if kind == "none" else observe_rows(values, bins=kind == "bins")
                finite = values[np.isfinite(values)]
                ends = {index: (rounded(float(finite.min())), rounded(float(finite.max())))}
                entries[key] = Entry(observe(values), rows, ends)
            settings = Settings("numpy", kind)
            parts.append(Profile("sha256:0", settings, ((index, index + 1),), entries))
        found.append(profile_text(reduce(Profile.merge, parts)).encode())
        data: Any = json.loads(found[-1])
        data["entries"]["r"] = {"of": ["a"], "clamp": [0, 6]}
        data["entries"]["s"] = {"of": ["r", "b/c"]}
        found.append(json.dumps(data).encode())
    return found


def _read_profile(path: Path) -> None:
    from qdialect.quantizer.profile.file import load_profile, parse_profile, profile_text

    profile = load_profile(path)
    try:
        text = profile_text(profile)
    except UnicodeEncodeError as error:
        raise AssertionError("what was read cannot be written") from error
    text.encode()
    if profile_text(parse_profile(text)) != text:
        raise AssertionError("what is written does not come back")


# -- weights: stores, names of stores, data beside a model --------------------------------


def _stores() -> list[bytes]:
    """By their first byte: S, a store; N, the name of one; E, entries of a tensor's data."""
    from tempfile import TemporaryDirectory

    import numpy as np

    from qdialect.ir.weights import BlobStore

    store = BlobStore()
    keys = [
        store.add(np.arange(6, dtype=np.float32).reshape(2, 3), "f32"),
        store.add(np.arange(4, dtype=np.int8), "i4"),
        store.add(np.array(3, np.int64), "i64"),
        store.add(np.zeros((0, 2), np.uint16), "bf16"),
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "w.safetensors"
        store.save(path, keys)
        found = [b"S" + path.read_bytes()]
        store.save(path, keys[:1])
        found.append(b"S" + path.read_bytes())
    names = ("in.safetensors", "a/b.safetensors", "../x", "/x", "link/x", "link", "a\\..\\..\\x")
    found += [b"N" + json.dumps([name]).encode() for name in names]
    for location in ("w.bin", "a/../w.bin", "../secret", "link/secret", "pipe", "folder"):
        entries = {"location": location, "offset": "4", "length": "12"}
        held = {"entries": entries, "dims": [3], "type": 1}
        found.append(b"E" + json.dumps(held).encode())
    return found


class _Stores:
    """Damage by what kind of input it is."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self._store = damage_bytes.Store(draw, [seed[1:] for seed in seeds if seed[:1] == b"S"])
        self._json = damage_bytes.Json(draw, [seed[1:] for seed in seeds if seed[:1] != b"S"])

    def change(self, data: bytes) -> bytes:
        how = self._store if data[:1] == b"S" else self._json
        return data[:1] + how.change(data[1:])


def _read_weights(path: Path) -> None:
    data = path.read_bytes()
    folder = path.parent / "inside"
    _lay_out(folder)
    if data[:1] == b"S":
        _read_store(data[1:], folder)
        return
    try:
        said: Any = json.loads(data[1:])
    except (ValueError, RecursionError):
        return
    if data[:1] == b"N":
        names = [name for name in said if isinstance(name, str)] if isinstance(said, list) else []
        for name in names:
            _read_name(name, folder)
    elif isinstance(said, dict):
        _read_beside(said, folder)


def _lay_out(folder: Path) -> None:
    """A folder with data in it, a way out of it, and a secret outside."""
    import os

    if folder.exists():
        return
    (folder / "folder").mkdir(parents=True)
    (folder.parent / "outside").mkdir()
    for secret in (folder.parent / "secret", folder.parent / "outside" / "secret"):
        secret.write_bytes(SECRET)
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "w.bin").write_bytes(bytes(range(16)))
    os.mkfifo(folder / "pipe")


def _read_store(data: bytes, folder: Path) -> None:
    from qdialect.ir.weights import BlobStore

    path = folder / "in.safetensors"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    store = BlobStore()
    store.open(path)
    for blob in store._blobs.values():
        if blob.array().shape != blob.shape:
            raise AssertionError("an array has not the shape it should")
    store.save(folder / "again.safetensors", list(store._blobs))
    again = BlobStore()
    again.open(folder / "again.safetensors")
    if again._blobs != store._blobs:
        raise AssertionError("what is written does not come back")


def _read_name(name: str, folder: Path) -> None:
    from qdialect.ir.weights import BlobStore
    from qdialect.plugins.mlir.read import weight_path

    path = weight_path(name, folder)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise AssertionError(f"{name!r} leads outside")
    BlobStore().open(path)


def _read_beside(said: dict[str, Any], folder: Path) -> None:
    import onnx

    from qdialect.plugins.onnx.read.tensors import TensorReader

    tensor = onnx.TensorProto(name="w", data_location=onnx.TensorProto.EXTERNAL)
    try:
        tensor.data_type = said.get("type", 1)
        tensor.dims.extend(said.get("dims", []))
        for key, value in said.get("entries", {}).items():
            tensor.external_data.add(key=key, value=value)
    except (TypeError, ValueError, AttributeError):
        return  # no such message
    reader = TensorReader("m.onnx", folder.resolve())
    reader.check(tensor)
    if SECRET[:6] in bytes(reader.raw(tensor)):
        raise AssertionError("data outside the folder was read")
    reader.array(tensor)


# -- arrays of calibration data -----------------------------------------------------------


def _archives() -> list[bytes]:
    import io

    import numpy as np

    found: list[bytes] = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, x=np.zeros((6, 4), np.float32), y=np.ones((6, 2), np.int8, order="F"))
        found.append(file.getvalue())
    return found


def _read_arrays(path: Path) -> None:
    from qdialect.ir.weights.numpy_files import npz_arrays, npz_headers

    headers, arrays = npz_headers(path), npz_arrays(path)
    if {name: (a.shape, a.dtype) for name, a in arrays.items()} != headers:
        raise AssertionError("an array is not what its header says")


# -- TFLite and Circle ----------------------------------------------------------------------


def _flatbuffers() -> list[bytes]:
    """Files with one of everything, with buffers inside and behind the flatbuffer."""
    from qdialect.plugins.tflite.file.write import file_bytes
    from tests.support.tflite_files import FILES

    files = [build() for build in FILES.values()]
    return [file_bytes(f) for f in files] + [file_bytes(f, largest=100) for f in files[:3]]


class Words:
    """Damage to the words of a flatbuffer: distances, counts and numbers have four bytes."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self._draw = draw
        self._bytes = _Bytecode(draw, seeds)

    def change(self, data: bytes) -> bytes:
        draw = self._draw
        if draw.random() < 0.25:
            return self._bytes.change(data)
        if draw.random() < 0.05:
            return data[: draw.randrange(len(data) + 1)]
        held = bytearray(data)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            count = len(held) // 4
            if not count:
                break
            at = 4 * draw.randrange(count)
            word = int.from_bytes(held[at : at + 4], "little")
            other = 4 * draw.randrange(count)
            word = draw.choice(
                (
                    word + draw.choice((-8, -4, -2, -1, 1, 2, 4, 8)),
                    word ^ (1 << draw.randrange(32)),
                    draw.choice((0, 1, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(held))),
                    int.from_bytes(held[other : other + 4], "little"),
                    (other - at) % (1 << 32),
                    draw.getrandbits(32),
                )
            )
            held[at : at + 4] = (word % (1 << 32)).to_bytes(4, "little")
        return bytes(held)


def _read_tflite(path: Path) -> None:
    import qdialect as qd
    from qdialect.plugins.mlir.write import module_text
    from qdialect.plugins.tflite.file.from_module import module_file
    from qdialect.plugins.tflite.file.read import read_bytes, read_file
    from qdialect.plugins.tflite.file.write import file_bytes

    file = read_file(path)
    data = file_bytes(file)
    if file_bytes(read_bytes(data)) != data:
        raise AssertionError("what is written does not come back")
    model = qd.load(path, _session(), as_written=True)
    module_text(model.module, model.ctx)
    again = read_bytes(file_bytes(module_file(model.module, model.ctx, file.kind)))
    if [len(graph.inputs) for graph in again.subgraphs] != [
        len(graph.inputs) for graph in file.subgraphs
    ]:
        raise AssertionError("the module is written with other inputs")


# -- programs of PyTorch --------------------------------------------------------------------


def _programs() -> list[bytes]:
    """Programs that stand in the tests, which are read without PyTorch."""
    return [path.read_bytes() for path in sorted((ROOT / "tests/formats/torch").rglob("*.pt2"))]


def _read_program(path: Path) -> None:
    import qdialect as qd
    from qdialect.plugins.mlir.write import module_text

    model = qd.load(path, _session())
    module_text(model.module, model.ctx)


_IR = ("ir/dialects/", "ir/ops/", "ir/quant/", "algebra/qparams/")


READERS = {
    "arrays": Reader(
        ".npz",
        ("ir/weights/numpy_files",),
        _archives,
        _read_arrays,
        lambda draw, seeds: damage_bytes.Archives(draw, seeds).change,
    ),
    "bytecode": Reader(
        ".mlirbc",
        ("plugins/mlir/bytecode/", *_IR),
        _bytecode_files,
        _read_bytecode,
        lambda draw, seeds: _Bytecode(draw, seeds).change,
    ),
    "mlir": Reader(
        ".mlir",
        ("plugins/mlir/read/", *_IR),
        _texts,
        _read_mlir,
        lambda draw, seeds: damage_bytes.Tokens(draw, seeds).change,
    ),
    "onnx": Reader(
        ".onnx",
        ("plugins/onnx/read/",),
        _models,
        _read_onnx,
        lambda draw, seeds: _Models(draw, seeds).change,
    ),
    "profile": Reader(
        ".json",
        ("quantizer/profile/",),
        _profiles,
        _read_profile,
        lambda draw, seeds: damage_bytes.Json(draw, seeds).change,
    ),
    "tflite": Reader(
        ".tflite",
        ("plugins/tflite/file/", "plugins/tflite/dialect", "ir/dialects/"),
        _flatbuffers,
        _read_tflite,
        lambda draw, seeds: Words(draw, seeds).change,
    ),
    "torch": Reader(
        ".pt2",
        ("plugins/torch/",),
        _programs,
        _read_program,
        lambda draw, seeds: damage_bytes.Documents(draw, seeds).change,
    ),
    "weights": Reader(
        ".bin",
        ("ir/weights/", "plugins/mlir/read/__init__.py", "plugins/onnx/read/tensors.py"),
        _stores,
        _read_weights,
        lambda draw, seeds: _Stores(draw, seeds).change,
    ),
}
