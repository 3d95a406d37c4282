"""Train a two-layer network on handwritten digits with Hologram kernels alone.

    ./build.sh run

scikit-learn's 1,797 digits of 8 × 8 pixels are split into a training and a test
set. The network is p = softmax(relu(x·W1)·W2), x with a constant 1 appended;
the loss is the cross-entropy, the update plain gradient descent. Products are
gemm, the gradients too; what the library lacks, the update and the gradients of
softmax and relu, is written below in the Atlas ISA. The same loop runs in numpy
beside it, and digits.png shows the losses and some predictions.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import hologram as hg

BATCH, HIDDEN, CLASSES, RATE = 96, 64, 10, 0.5

# w −= rate·g, in place: w is read and written.
UPDATE = """
program update
slot w f32
slot g f32
param rate f32
  ldg.f32 w, w[index]
  ldg.f32 g, g[index]
  ldp.f32 r, rate
  neg.f32 r, r
  fma.f32 w, r, g, w
  stg.f32 w, w[index]
  exit
"""

# The gradient of the mean cross-entropy in softmax's input: (p − t)·scale.
SOFTMAX_GRADIENT = """
program softmax_gradient
slot p f32
slot t f32
slot g f32
param scale f32
  ldg.f32 p, p[index]
  ldg.f32 t, t[index]
  ldp.f32 s, scale
  sub.f32 d, p, t
  mul.f32 d, d, s
  stg.f32 d, g[index]
  exit
"""

# The gradient through relu: g where the output h was positive, else 0.
RELU_GRADIENT = """
program relu_gradient
slot h f32
slot g f32
slot d f32
  ldg.f32 h, h[index]
  ldg.f32 g, g[index]
  set.gt.f32 positive, h, 0
  sel.f32 d, positive, g, 0
  stg.f32 d, d[index]
  exit
"""


class Network:
    """The network on a Hologram executor; every array is a buffer of its device."""

    def __init__(self, ex: hg.Executor, w1: np.ndarray, w2: np.ndarray) -> None:
        self.ex = ex
        self.inputs = w1.shape[0]
        self.w1, self.w2 = self.buffer(w1), self.buffer(w2)
        self.g1, self.g2 = ex.allocate(w1.size), ex.allocate(w2.size)
        self.x, self.t = ex.allocate(BATCH * self.inputs), ex.allocate(BATCH * CLASSES)
        self.h, self.dh = ex.allocate(BATCH * HIDDEN), ex.allocate(BATCH * HIDDEN)
        self.p, self.dz = ex.allocate(BATCH * CLASSES), ex.allocate(BATCH * CLASSES)
        self.loss = ex.allocate(3)
        self.update, self.softmax_gradient, self.relu_gradient = (
            hg.Program(text) for text in (UPDATE, SOFTMAX_GRADIENT, RELU_GRADIENT)
        )

    def buffer(self, array: np.ndarray) -> hg.Buffer:
        b = self.ex.allocate(array.size)
        b.from_numpy(array.ravel())
        return b

    def forward(self, x: np.ndarray) -> None:
        """Probabilities of a batch into p."""
        ops, ex = hg.ops, self.ex
        self.x.from_numpy(x.ravel())
        ops.gemm(ex, self.x, self.w1, self.h, BATCH, HIDDEN, self.inputs)
        ops.vector_relu(ex, self.h, self.h)
        ops.gemm(ex, self.h, self.w2, self.p, BATCH, CLASSES, HIDDEN)
        ops.softmax_rows(ex, self.p, self.p, BATCH, CLASSES)

    def step(self, x: np.ndarray, t: np.ndarray) -> float:
        """One step of gradient descent; returns the batch's loss before it."""
        ops, ex = hg.ops, self.ex
        self.forward(x)
        self.t.from_numpy(t.ravel())
        loss = ops.cross_entropy_loss(ex, self.p, self.t, self.loss) * CLASSES
        ex.launch(self.softmax_gradient, p=self.p, t=self.t, g=self.dz, scale=1 / BATCH)
        ops.gemm(ex, self.h, self.dz, self.g2, HIDDEN, CLASSES, BATCH, trans_a=True)
        ops.gemm(ex, self.dz, self.w2, self.dh, BATCH, HIDDEN, CLASSES, trans_b=True)
        ex.launch(self.relu_gradient, h=self.h, g=self.dh, d=self.dh)
        ops.gemm(ex, self.x, self.dh, self.g1, self.inputs, HIDDEN, BATCH, trans_a=True)
        ex.launch(self.update, w=self.w1, g=self.g1, rate=RATE)
        ex.launch(self.update, w=self.w2, g=self.g2, rate=RATE)
        return loss

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        self.forward(x)
        return self.p.to_numpy().reshape(BATCH, CLASSES)


class NumpyNetwork:
    """The same computation in numpy."""

    def __init__(self, w1: np.ndarray, w2: np.ndarray) -> None:
        self.w1, self.w2 = w1.copy(), w2.copy()

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h = np.maximum(x @ self.w1, 0)
        z = h @ self.w2
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return h, e / e.sum(axis=1, keepdims=True)

    def step(self, x: np.ndarray, t: np.ndarray) -> float:
        h, p = self.forward(x)
        loss = -float(np.mean(t * np.log(p))) * CLASSES
        dz = (p - t) * np.float32(1 / BATCH)
        g2 = h.T @ dz
        dh = np.where(h > 0, dz @ self.w2.T, np.float32(0))
        self.w1 -= np.float32(RATE) * (x.T @ dh)
        self.w2 -= np.float32(RATE) * g2
        return loss

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        return self.forward(x)[1]


def load(seed: int) -> tuple[np.ndarray, ...]:
    """Training and test images (with a column of ones) and labels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    x = np.hstack([images / 16, np.ones((len(images), 1))]).astype(np.float32)
    return tuple(train_test_split(x, labels, test_size=0.2, random_state=seed, stratify=labels))


def train(
    net: Network | NumpyNetwork, x: np.ndarray, y: np.ndarray, epochs: int, seed: int, label: str
) -> tuple[list[float], float]:
    """Mean loss of each epoch, and the seconds it all took."""
    rng = np.random.default_rng(seed)
    targets = np.eye(CLASSES, dtype=np.float32)[y]
    losses = []
    start = time.perf_counter()
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        batches = [order[i : i + BATCH] for i in range(0, len(order) - BATCH + 1, BATCH)]
        losses.append(float(np.mean([net.step(x[b], targets[b]) for b in batches])))
        progress(label, epoch + 1, epochs, losses[-1])
    return losses, time.perf_counter() - start


def progress(label: str, done: int, of: int, loss: float) -> None:
    """A bar that grows in place on a terminal; elsewhere only its last state is written."""
    if sys.stderr.isatty() or done == of:
        filled = 30 * done // of
        end = "\n" if done == of else ""
        sys.stderr.write(f"\r{label:9} [{'#' * filled}{'.' * (30 - filled)}] epoch {done}/{of}  loss {loss:.4f}{end}")
        sys.stderr.flush()


def predict(net: Network | NumpyNetwork, x: np.ndarray) -> np.ndarray:
    """The likeliest class of every image; the last batch is filled up by repetition."""
    batches = [np.resize(np.arange(i, min(i + BATCH, len(x))), BATCH) for i in range(0, len(x), BATCH)]
    return np.concatenate([net.probabilities(x[b]).argmax(axis=1) for b in batches])[: len(x)]


def picture(path: Path, losses: dict[str, list[float]], x: np.ndarray, y: np.ndarray, predicted: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    for style, (name, values) in zip(("-", "--"), losses.items()):
        axes.plot(range(1, len(values) + 1), values, style, label=name)
    axes.set(xlabel="epoch", ylabel="cross-entropy", yscale="log", title="training loss")
    axes.legend()
    wrong = np.flatnonzero(predicted != y)[:4]
    shown = np.concatenate([np.flatnonzero(predicted == y)[: 20 - len(wrong)], wrong])
    for ax, i in zip(right.subplots(4, 5).flat, shown):
        ax.imshow(x[i, :64].reshape(8, 8), cmap="gray_r")
        ax.set_title(
            f"{predicted[i]}" + ("" if predicted[i] == y[i] else f" (is {y[i]})"),
            fontsize=9,
            color="k" if predicted[i] == y[i] else "r",
        )
        ax.axis("off")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train a two-layer network on handwritten digits with Hologram kernels."
    )
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("digits.png"), help="where the picture goes")
    args = parser.parse_args()

    x, test_x, y, test_y = load(args.seed)
    rng = np.random.default_rng(args.seed)
    w1, w2 = (
        (rng.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32)
        for shape in ((x.shape[1], HIDDEN), (HIDDEN, CLASSES))
    )
    with hg.Executor(args.backend) as ex:
        net, reference = Network(ex, w1, w2), NumpyNetwork(w1, w2)
        losses, seconds = train(net, x, y, args.epochs, args.seed, "hologram")
        numpy_losses, numpy_seconds = train(reference, x, y, args.epochs, args.seed, "numpy")
        predicted, expected = predict(net, test_x), predict(reference, test_x)
        accuracy = float(np.mean(predicted == test_y))
        picture(
            args.picture,
            {f"hologram ({ex.backend})": losses, "numpy": numpy_losses},
            test_x,
            test_y,
            predicted,
        )
    print(f"trained in {seconds:.1f} s; the same loop in numpy: {numpy_seconds:.1f} s")
    print(f"same predictions as numpy: {float(np.mean(predicted == expected)):.1%} of the test set")
    print(f"final losses: {losses[-1]:.4f}, in numpy {numpy_losses[-1]:.4f}")
    print(f"picture: {args.picture}")
    print(f"accuracy: {accuracy:.2f}")
    if accuracy < 0.95:
        sys.exit("the accuracy is below 0.95")


if __name__ == "__main__":
    main()
