"""The models that tests are made of run in LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.tflite_models import LitertError, litert_ops, model, op, run_litert, tensor

RESOLVERS = ("xnn", "ref", "opt")


def convolution() -> bytes:
    x = tensor("x", (1, 4, 4, 2), "INT8", 0.1, 3)
    w = tensor("w", (3, 1, 1, 2), "INT8", [0.5, 0.25, 0.125], data=np.arange(6).reshape(3, 1, 1, 2))
    b = tensor("b", (3,), "INT32", [0.05, 0.025, 0.0125], data=[10, 20, -30])
    y = tensor("y", (1, 4, 4, 3), "INT8", 0.2, -5)
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    conv = op("CONV_2D", ["x", "w", "b"], ["y"], options, 3)
    return model(
        [x], [y], [conv], [w, b], signatures={"serving_default": ({"in": "x"}, {"o": "y"})}
    )


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_a_convolution_runs(resolver: str) -> None:
    codes = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    (found,) = run_litert(convolution(), [codes], resolver)
    weights = np.arange(6).reshape(3, 2) * np.array([[0.5], [0.25], [0.125]])
    real = 0.1 * (codes.astype(float) - 3) @ weights.T + [0.5, 0.5, -0.375]
    assert np.abs(found - np.clip(np.rint(real / 0.2) - 5, -128, 127)).max() <= 1


def test_ops_are_delegated() -> None:
    assert litert_ops(convolution()) == ["CONV_2D", "DELEGATE"]
    assert litert_ops(convolution(), "opt") == ["CONV_2D"]


def test_inputs_are_resized_and_tensors_read() -> None:
    x, y, z = (tensor(n, (1, 2), signature=(-1, 2)) for n in "xyz")
    data = model([x], [z], [op("EXP", ["x"], ["y"]), op("NEG", ["y"], ["z"])], [y])
    found = run_litert(data, {"x": np.zeros((3, 2), np.float32)}, "ref", tensors=True)
    assert found["y"].tolist() == [[1, 1]] * 3 and found["z"].shape == (3, 2)


def test_a_refusal_is_an_error() -> None:
    x = tensor("x", (1, 2), "INT8", 0.1, 3)
    y = tensor("y", (1, 2), "INT8", 0.1, 3)
    with pytest.raises(LitertError):
        run_litert(model([x], [y], [op("SIN", ["x"], ["y"])]), [np.zeros((1, 2), np.int8)])
