"""Names of a model do nothing to a terminal or a log: control characters are written as escapes."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from qdialect.cli.commands import COMMANDS
from qdialect.cli.terminal import line, report, table
from qdialect.errors import Block, InputError, Where, printable
from tests.cli.pseudo_terminal import run_in_terminal
from tests.support.commands import Result, call, qopt, qopt_opt, qopt_translate
from tests.support.source import trees

pytest.importorskip("onnxruntime")

EVIL = "a\x1b]0;b\rc\x07d\x9be\u202ef\u2028g\x7f\nerror: forged"
"""What sets the title of a terminal, goes back to the start of the line, rings, begins a sequence
in one character, turns text around, and breaks the line in three ways."""
SHOWN = r"a\x1b]0;b\rc\x07d\x9be\u202ef\u2028g\x7f\nerror: forged"
FILE = f"m{EVIL.replace('/', '')}.onnx"
CASES: Mapping[str, Sequence[Sequence[str]]] = {
    "optimize": (
        [FILE, "-o", "o.onnx", "--race=0", "--remarks", "--details", "--timing"],
        [FILE, "-o", "o.onnx", "--race=0", "-i", "wrong.npz"],
        [FILE, "-o", "o.mlir", "--target=linalg", "--verify-numerics=1"],
        [FILE, "-o", "o.tflite"],
        [".", "-o", "folder", "--race=0", "--jobs=1"],
    ),
    "inspect": (
        [FILE, FILE, "--target=onnxruntime", "--fail-on=B1,B2,B3,B4,B5,B6,B7"],
        [FILE, "--integerized"],
        [f"no{FILE}"],
    ),
    "explain": ([FILE], [FILE, "--op", f"p{EVIL}"], [FILE, "--op", f"no{EVIL}"]),
    "run": (
        [FILE, "-i", "x.npz", "-o", "y.npz", "--engine=numpy", "--engine=onnxruntime"],
        [FILE, "-i", "wrong.npz", "-o", "y.npz", "--engine=onnxruntime"],
        ["fails.onnx", "-i", "fails.npz", "-o", "y.npz", "--engine=onnxruntime"],
    ),
    "diff": (
        [FILE, "float.onnx"],
        [FILE, "float.onnx", "--layers", "--alone"],
        [FILE, FILE, "-i", "wrong.npz"],
    ),
    "engines": ([],),
    "engines install": ([EVIL],),
    "new-target": ([EVIL],),
    "completion": ([EVIL],),
    "profile": (
        ["float.onnx", "--data=x.npz", "-o", "p.json"],
        ["float.onnx", "--data=zeros.npz", "-o", f"p{EVIL}.json"],
        ["float.onnx", "--data=wrong.npz", "-o", "p.json"],
    ),
    "profile merge": (["p0.json", FILE, "-o", "p.json"],),
    "profile show": (["p0.json"], ["p0.json", "--key", f"no{EVIL}"]),
    "quantize": (
        ["float.onnx", "--data=x.npz", "-o", "q.onnx", "--race=0", "--remarks", "--sensitive=1"],
        ["float.onnx", "--profile=p0.json", "-o", "q.mlir"],
        ["other.onnx", "--profile=p0.json", "-o", "q.mlir"],
        ["other.onnx", "--profile=p0.json", "--profile-of-another-model", "-o", "q.mlir"],
    ),
}


def _save(path: str, *nodes: onnx.NodeProto, more: Sequence[onnx.TensorProto] = ()) -> None:
    """A model from x to y of which every name is evil."""
    helper = onnx.helper
    x, y = (helper.make_tensor_value_info(n + EVIL, 1, [1, 8]) for n in "xy")
    weight = np.random.default_rng(0).integers(-100, 100, (8, 8)).astype(np.int8)
    constants = {"w": weight, "f": weight.astype(np.float32) / 50, "s": np.float32(0.1)}
    constants["z"] = np.int8(0)
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), n + EVIL) for n, v in constants.items()]
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in (*tensors, *more) if tensor.name in used]
    graph = helper.make_graph(nodes, f"g{EVIL}", [x], [y], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version, model.producer_name, model.doc_string = 8, EVIL, EVIL
    helper.set_model_props(model, {f"key{EVIL}": f"value{EVIL}"})
    onnx.save(model, path)


def _node(kind: str, inputs: str, output: str) -> onnx.NodeProto:
    names = [name + EVIL for name in inputs]
    return onnx.helper.make_node(kind, names, [output + EVIL], name=output + EVIL)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the commands read."""
    monkeypatch.chdir(tmp_path)
    tail = _node("Erf", "p", "e"), _node("Hardmax", "e", "h")
    casts = _node("QuantizeLinear", "hsz", "q"), _node("DequantizeLinear", "qsz", "y")
    quantized = (
        _node("QuantizeLinear", "xsz", "a"),
        _node("DequantizeLinear", "asz", "b"),
        _node("DequantizeLinear", "wsz", "v"),
        _node("MatMul", "bv", "p"),
    )
    _save(FILE, *quantized, *tail, *casts)
    _save("float.onnx", _node("MatMul", "xf", "p"), *tail[:1], _node("Hardmax", "e", "y"))
    _save("other.onnx", _node("Relu", "x", "r"), _node("MatMul", "rf", "y"))
    shape = onnx.numpy_helper.from_array(np.array([3, 3]), f"t{EVIL}")
    _save("fails.onnx", _node("Abs", "x", "c"), _node("Reshape", "ct", "y"), more=[shape])
    x = np.random.default_rng(0).normal(size=(1, 8)).astype(np.float32)
    np.savez("x.npz", **{f"x{EVIL}": x})  # pyright: ignore[reportArgumentType]
    np.savez("fails.npz", **{f"x{EVIL}": x})  # pyright: ignore[reportArgumentType]
    np.savez("zeros.npz", **{f"x{EVIL}": 0 * x})  # pyright: ignore[reportArgumentType]
    np.savez("wrong.npz", **{f"no{EVIL}": x})  # pyright: ignore[reportArgumentType]
    assert call(qopt, "profile", "float.onnx", "--data=x.npz", "-q", "-o", "p0.json").code == 0
    return tmp_path


def forged(text: str) -> list[str]:
    """The lines that a name put there, and the characters that do something."""
    lines = [each for each in text.split("\n") if each.startswith("error: forged")]
    return [*lines, *{c for c in text if not c.isprintable() and c != "\n"}]


def check(result: Result) -> None:
    assert result.code != 70, result.err
    assert forged(result.out) == [] and forged(result.err) == []


def test_every_command_is_run() -> None:
    assert CASES.keys() == COMMANDS.keys()


@pytest.mark.parametrize(("name", "words"), [(n, c) for n, cases in CASES.items() for c in cases])
@pytest.mark.usefixtures("work")
def test_text_of_a_command(name: str, words: Sequence[str]) -> None:
    check(call(qopt, *name.split(), *words))


@pytest.mark.usefixtures("work")
def test_text_of_the_other_commands() -> None:
    imported = call(qopt_translate, "--import-onnx", FILE, "--mlir-print-debuginfo")
    check(imported)
    flags = "--remarks", "--debug", "--mlir-print-ir-after-all", "--mlir-pass-statistics"
    found = call(qopt_opt, "-p", "canonicalize,integerize", *flags, stdin=imported.out)
    check(found)
    assert "IR Dump" in found.err
    for target in ("tosa", "linalg", "stablehlo"):
        check(call(qopt_translate, f"--export-{target}", FILE))


def test_text_on_a_terminal(work: Path) -> None:
    """Our own sequences are there, for colours; those of names are not."""
    for words in CASES["inspect"], CASES["explain"], CASES["optimize"][:2]:
        for each in words:
            command = "optimize" if "-o" in each else "explain" if "--op" in each else "inspect"
            _, text = run_in_terminal(command, *each, cwd=work)
            assert "\x1b[" in text or "error" in text
            for part in ("\x1b]", "\x07", "\x9b", "\u202e", "\u2028", "\x7f", "\nerror: forged"):
                assert part not in text


@pytest.mark.usefixtures("work")
def test_machines_get_names_as_they_are() -> None:
    found = json.loads(call(qopt, "inspect", FILE, "--json").out)
    assert list(found["inputs"]) == [f"x{EVIL}"]
    text = call(qopt_translate, "--import-onnx", FILE).out
    again = call(qopt_opt, stdin=text)
    assert again.code == 0
    before, after = (re.findall(r'nn.name = "[^"]*"', each) for each in (text, again.out))
    assert before == after != []


# -- where text is made -------------------------------------------------------------------


def test_printable() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("añ𝄞 '\\n'") == "añ𝄞 '\\n'"
    assert printable("\udcff\t") == r"\udcff\t"
    assert line(EVIL) == SHOWN + "\n"
    assert table([(EVIL, "1")]) == f"{SHOWN}  1\n"


def test_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The message, the place and each note are a line; a block keeps its own lines."""
    place = Where(EVIL, node=EVIL)
    notes = (EVIL, Block("see:\n{\n  \x1b\n}", None))
    report(InputError(EVIL, where=place, notes=notes))
    assert capsys.readouterr().err.splitlines() == [
        f"{SHOWN}: node '{SHOWN}': error: {SHOWN}",
        f"note: {SHOWN}",
        *("note: see:", "{", r"  \x1b", "}"),
    ]
    path = tmp_path / "a.mlir"
    path.write_text('\t"\x1b" there', encoding="utf-8")
    report(InputError("wrong", where=Where(str(path), 1, 6)))
    assert capsys.readouterr().err.splitlines()[1:] == ['\t"\\x1b" there', "\t" + " " * 7 + "^"]


def test_nothing_is_printed_past_that() -> None:
    """Text for people goes through `line`, `say`, `report`, `table` and `paint`."""
    calls = [
        f"{name}, line {node.lineno}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "print" and not name.startswith("qdialect.testing")
    ]
    assert calls == []


def test_messages_of_the_language_server() -> None:
    pytest.importorskip("pygls")
    from tests.support.language_client import Client

    client = Client()
    client.initialize({"delay": 0.02})
    name = "".join(f"\\{b:02X}" for b in EVIL.encode())
    found = client.open("untitled:a.mlir", f'"a\x1b.{name}"() : () -> ()\n')
    found += client.open(
        "untitled:b.mlir",
        f'func.func @"{name}"() {{ return }}\nfunc.func @"{name}"() {{ return }}\n',
    )
    client.stop()
    notes = [n.message for each in found for n in each.related_information or ()]
    messages = [each.message for each in found] + notes + client.messages
    assert (
        len(found) == 2 and forged("".join(messages)) == [] and SHOWN.split("\\n")[0] in messages[1]
    )
