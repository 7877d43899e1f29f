"""Arrays that are damaged or malicious: one error at once, whatever reads them."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from profile_models import images

from qdialect.cli.qopt import main
from qdialect.ir.weights import numpy_files

HUGE = 1 << 60


def npy(shape: object, descr: str = "'<f4'", data: bytes = bytes(64), version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header + data


def npz(member: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("x.npy", member)
    return file.getvalue()


def sound() -> bytes:
    file = io.BytesIO()
    np.save(file, images(2))
    return file.getvalue()


def claiming(size: int) -> bytes:
    """An archive whose directory says that its one array has `size` bytes."""
    header = npy(f"({size // 432}, 3, 6, 6)", data=b"")
    made = bytearray(npz(header + bytes(64)))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = made.index(signature) + offset
        made[at : at + 4] = struct.pack("<I", len(header) + size)
    return bytes(made)


def flagged(offset: int, value: int) -> bytes:
    """An archive with a two-byte number of both its headers replaced."""
    made = bytearray(npz(sound()))
    for signature, extra in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = made.index(signature) + offset + extra
        made[at : at + 2] = struct.pack("<H", value)
    return bytes(made)


DAMAGED = {
    "a header that claims too much": (npz(npy(f"({HUGE}, 4)")), "claims 18446744073709551616"),
    "negative extents": (npz(npy("(-4, 4)")), "array 'x' has the shape [-4, 4]"),
    "objects": (npz(npy("(4, 3, 6, 6)", "'|O'")), "has dtype object"),
    "text in place of a shape": (npz(npy("'x'")), "shape is not valid"),
    "no header": (npz(b"\x93NUMPY"), "cannot read: "),
    "another version": (npz(npy("(1,)", version=9)), "format version"),
    "no array": (npz(b"something else"), "cannot read: "),
    "half an array": (npz(sound()[:-50]), "claims 864 bytes, but 814 follow"),
    "half an archive": (npz(sound())[:-60], "not an .npz file"),
    "no archive": (sound(), "not an .npz file"),
    "empty": (b"", "not an .npz file"),
    "a directory that claims too much": (claiming(432 * 4_000_000), "not so long as"),
    "a password": (flagged(6, 1), "cannot read: "),
    "an unknown compression": (flagged(8, 77), "cannot read: "),
    "another type": (npz(npy("(2, 3, 6, 6)", "'<f8'", bytes(2000))), "has dtype float64"),
    "another byte order": (npz(npy("(2, 3, 6, 6)", "'>f4'", bytes(2000))), "has dtype >f4"),
    "a record": (npz(npy("(1,)", "[('a', '<f4')]")), "has dtype [('a', '<f4')]"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archives(name: str, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = DAMAGED[name]
    Path("bad.npz").write_bytes(data)
    for command in ("profile net.mlir -o p.json --data", "quantize net.mlir -o q.mlir --data"):
        assert main([*command.split(), "bad.npz"]) == 1
        told = capsys.readouterr().err
        assert told.startswith("bad.npz: error: ")
        assert words in told
        assert told.count("\n") == 1
    assert main(["run", "net.mlir", "--input", "bad.npz", "-o", "y.npz"]) == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(f"({HUGE}, 3, 6, 6)"), "but 64 follow"),
        (npy("(-2, 3, 6, 6)"), "has the shape"),
        (sound()[:-1], "claims 864 bytes, but 863 follow"),
        (sound()[:20], "cannot read: "),
        (b"", "cannot read: "),
    ],
)
def test_damaged_single_arrays(
    data: bytes, words: str, net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.npy").write_bytes(data)
    assert main(["profile", "net.mlir", "--data=bad.npy", "-o", "p.json"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("bad.npy: error: ")
    assert words in told


def test_more_than_the_memory_of_the_machine(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small archive of many zeros is refused before anything is unpacked."""
    np.savez_compressed("zeros.npz", x=np.zeros((2000, 3, 6, 6), np.float32))
    monkeypatch.setattr(numpy_files, "_physical_memory", lambda: 100_000)
    assert main(["profile", "net.mlir", "--data=zeros.npz", "-o", "p.json"]) == 1
    told = capsys.readouterr().err
    assert "its arrays take 864000 bytes, but this machine has 100000 bytes of memory" in told
    assert numpy_files.npz_headers(Path("data.npz"))["x"].shape == (6, 3, 6, 6)


def test_the_order_of_elements_does_not_matter(net: Path) -> None:
    assert main(["profile", "net.mlir", "--data=data.npz", "-q", "-o", "c.json"]) == 0
    columns = np.asfortranarray(np.load("data.npz")["x"])
    np.savez_compressed("data.npz", x=columns)
    assert main(["profile", "net.mlir", "--data=data.npz", "-q", "-o", "f.json"]) == 0
    np.save("data.npy", columns)
    assert main(["profile", "net.mlir", "--data=data.npy", "-q", "-o", "g.json"]) == 0
    assert Path("c.json").read_bytes() == Path("f.json").read_bytes() == Path("g.json").read_bytes()
