"""Files of TensorFlow's own converter: Keras networks trained on the digits of scikit-learn.

A program of its own, in an environment with tensorflow, tf-keras, tensorflow-model-optimization
and scikit-learn: `python of_keras.py FOLDER` writes FOLDER/keras-NAME-KIND.tflite, where a kind is
a way to quantize: after training (int8, with int8 or float at the interface, uint8 at the
interface, int16 activations, dynamic range, float16 weights), or in training (aware).
"""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false
from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow as tf
import tf_keras as keras
from sklearn.datasets import load_digits

layers = keras.layers


def cnn():
    """A small convolutional network."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.DepthwiseConv2D(3, padding="same", strides=2),
            layers.BatchNormalization(),
            layers.ReLU(6.0),
            layers.Conv2D(24, 1, activation="relu"),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def branches():
    """Sums, products, a concatenation, a gate, an interpolation, a transposed convolution."""
    x = into = layers.Input((8, 8, 1))
    x = layers.Conv2D(12, 3, padding="same", activation="swish")(x)
    y = layers.LeakyReLU(0.2)(layers.Conv2D(12, 3, padding="same")(x))
    z = layers.UpSampling2D(interpolation="bilinear")(layers.MaxPooling2D()(x))
    x = layers.Concatenate()([layers.Add()([x, y]), z])
    gate = layers.GlobalAveragePooling2D(keepdims=True)(x)
    x = layers.Multiply()([x, layers.Conv2D(24, 1, activation="sigmoid")(gate)])
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="tanh")(x)
    x = layers.PReLU(shared_axes=[1, 2])(layers.Conv2DTranspose(8, 3, strides=2)(x))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(into, layers.Dense(10)(x))


def lstm():
    """An LSTM over the rows of a picture."""
    return keras.Sequential(
        [
            layers.Input((8, 8), batch_size=1),
            layers.LSTM(24),
            layers.Dense(10, activation="softmax"),
        ]
    )


def words():
    """A bag of words: Gather of an embedding, a mean, products."""
    return keras.Sequential(
        [
            layers.Input((64,), dtype="int32", batch_size=1),
            layers.Embedding(17, 16),
            layers.Conv1D(16, 3, padding="same", activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(10, activation="softmax"),
        ]
    )


NETS = {"cnn": cnn, "branches": branches, "lstm": lstm, "words": words}
KINDS = ("float", "int8", "int8-io", "uint8-io", "int16", "dynamic", "float16")


def pictures(name: str):
    """Inputs and labels of one network."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images, labels = digits.images[order], digits.target[order]
    if name == "words":
        return images.reshape(-1, 64).astype(np.int32), labels
    images = (images / 16).astype(np.float32)
    return (images if name == "lstm" else images[..., None]), labels


def trained(name: str, net):
    """The network, trained."""
    images, labels = pictures(name)
    logits = not isinstance(net.layers[-1], layers.Dense) or name == "branches"
    net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=logits))
    net.fit(images[:1400], labels[:1400], epochs=12, batch_size=32, verbose=0)
    return net


def trained_alone(name: str):
    """One that has a batch of 1 is trained as a copy without it."""
    keras.utils.set_random_seed(0)
    net = NETS[name]()
    if name not in ("lstm", "words"):
        return trained(name, net)
    config = net.get_config()
    config["layers"][0]["config"]["batch_input_shape"] = (
        None,
        *config["layers"][0]["config"]["batch_input_shape"][1:],
    )
    free = trained(name, keras.Sequential.from_config(config))
    net.set_weights(free.get_weights())
    return net


def converted(net, images, kind: str) -> bytes:
    """What the converter writes."""
    converter = tf.lite.TFLiteConverter.from_keras_model(net)

    def sample():
        for image in images[:100]:
            yield [image[None]]

    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    sets = tf.lite.OpsSet
    if kind.startswith(("int8", "uint8")):
        converter.representative_dataset = sample
        converter.target_spec.supported_ops = [sets.TFLITE_BUILTINS_INT8]
        if kind.endswith("-io"):
            of = tf.int8 if kind == "int8-io" else tf.uint8
            converter.inference_input_type = converter.inference_output_type = of
    if kind == "int16":
        converter.representative_dataset = sample
        converter.target_spec.supported_ops = [
            sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
            sets.TFLITE_BUILTINS,
        ]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def main() -> None:
    """Write all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in NETS:
        net, (images, _) = trained_alone(name), pictures(name)
        for kind in KINDS:
            path = folder / f"keras-{name}-{kind}.tflite"
            try:
                path.write_bytes(converted(net, images, kind))
                print(path.name, file=sys.stderr, flush=True)
            except Exception as error:  # what it does not quantize
                print(f"{path.name}: {str(error).splitlines()[0][:160]}", file=sys.stderr)
    try:
        import tensorflow_model_optimization as tfmot

        keras.utils.set_random_seed(0)
        net = trained("cnn", cnn())
        aware = trained("cnn", tfmot.quantization.keras.quantize_model(net))
        path = folder / "keras-cnn-aware.tflite"
        converter = tf.lite.TFLiteConverter.from_keras_model(aware)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        path.write_bytes(converter.convert())
        print(path.name, file=sys.stderr)
    except Exception as error:
        print(f"keras-cnn-aware: {str(error).splitlines()[0][:160]}", file=sys.stderr)


if __name__ == "__main__":
    main()
