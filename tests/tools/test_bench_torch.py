"""The benches on exported programs: codes are judged one quantize at a time, and files of others
by their types."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("torchao", reason="needs torchao, whose quantizers make the programs")

from tools.bench import tico, torch_nets  # noqa: E402
from tools.bench.torch_models import NETS, Sample  # noqa: E402


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("quantizer", torch_nets.QUANTIZERS)
def test_codes_of_a_network_are_those_of_pytorch(quantizer: str) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3), torch.nn.Flatten()
    )
    samples = [Sample((torch.randn(1, 3, 8, 8),), None) for _ in range(3)]
    program = torch_nets.quantized(module, samples, quantizer)
    count, differing, largest = torch_nets.differing_codes(program, samples[0].inputs)
    assert count >= 3 * 8 * 8 + 8 * 6 * 6
    assert (differing, largest) == (0, 0)


@pytest.mark.filterwarnings("ignore")
def test_a_float_network_has_no_codes() -> None:
    inputs = (torch.randn(1, 4),)
    program = torch_nets.exported(torch.nn.Linear(4, 2), inputs)
    assert torch_nets.differing_codes(program, inputs) == (0, 0, 0)


def counted(kind: str, operands: list[str], results: list[str], constant: bool = False) -> object:
    found = tico.File()
    tico._add(found, kind, operands, results, constant)
    return SimpleNamespace(
        illegal=found.illegal, breaks=found.breaks, constants=found.constants, casts=found.casts
    )


@pytest.mark.parametrize(
    ("kind", "operands", "results", "illegal", "breaks"),
    [
        ("CONV_2D", ["UINT8", "INT8", "INT32"], ["FLOAT32"], 1, 1),
        ("CONV_2D", ["INT8", "INT8", "FLOAT32"], ["INT8"], 1, 0),
        ("CONV_2D", ["INT8", "INT8", "INT32"], ["INT8"], 0, 0),
        ("FULLY_CONNECTED", ["FLOAT32", "INT8", "FLOAT32"], ["FLOAT32"], 0, 0),
        ("ADD", ["UINT8", "FLOAT32"], ["FLOAT32"], 1, 0),
        ("ADD", ["INT8", "INT8"], ["INT8"], 0, 0),
        ("QUANTIZE", ["FLOAT32"], ["INT8"], 0, 0),
        ("GATHER", ["FLOAT32", "INT32"], ["FLOAT32"], 0, 0),
    ],
)
def test_types_that_no_kernel_has_are_counted(
    kind: str, operands: list[str], results: list[str], illegal: int, breaks: int
) -> None:
    found = counted(kind, operands, results)
    assert (found.illegal, found.breaks) == (illegal, breaks)  # type: ignore[attr-defined]


def test_reshapes_of_constants_are_counted() -> None:
    assert counted("TRANSPOSE", ["UINT8", "INT32"], ["UINT8"], True).constants == 1  # type: ignore[attr-defined]
    assert counted("TRANSPOSE", ["UINT8", "INT32"], ["UINT8"]).constants == 0  # type: ignore[attr-defined]


def test_tables_say_what_failed() -> None:
    row = torch_nets.Row("crepe-tiny", "x86")
    row.engines["ours default"] = torch_nets.Measured(ms=1.5, score=1.0, nodes=9)
    row.engines["inductor"] = torch_nets.Measured(why="RuntimeError: no kernel")
    text = torch_nets.report([row])
    assert "| 1.50 |" in text.replace("  ", "")
    assert "- crepe-tiny, x86, inductor: RuntimeError: no kernel" in text


@pytest.mark.parametrize("name", ["retrieval", "area", "pitch"])
def test_scores_are_one_where_all_is_right(name: str) -> None:
    import numpy as np

    eye = [[row[None]] for row in np.repeat(np.eye(3), 2, axis=0)]
    if name == "retrieval":
        assert NETS["mobilenetv2"].score(eye, [0, 0, 1, 1, 2, 2]) == 1.0
        assert NETS["mobilenetv2"].score(eye, [0, 1, 2, 0, 1, 2]) == 0.0
    elif name == "area":
        outputs = [[None, np.array([[1 - p, p]])] for p in (0.1, 0.4, 0.4, 0.9)]
        assert NETS["mtcnn-rnet"].score(outputs, [False, False, True, True]) == 0.875
    else:
        activity = np.zeros((1, 360))
        activity[0, 120] = 1.0
        pitch = 10 * 2 ** ((20.0 * 120 + 1997.3794084376191) / 1200)
        assert NETS["crepe-tiny"].score([[activity]] * 2, [pitch, 2 * pitch]) == 0.5
