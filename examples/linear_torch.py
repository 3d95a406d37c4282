"""How far diabetes went within a year, by linear regression: gradient descent beside the exact solution.

    python examples/linear_torch.py [--epochs 200] [--picture linear_torch.png]

Ten measurements of 442 patients (Efron and others, Least Angle Regression, 2004). The loop is hologram_torch's, with a
log that the picture is drawn from; the least squares that the network has to find are known.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch.utils.data import DataLoader, TensorDataset

from hologram_torch import functional as F
from hologram_torch import nn, optim, training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--picture", default="linear_torch.png")
    options = parser.parse_args()

    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    columns = np.column_stack([x, np.ones(len(x))])
    least = float(np.mean((columns @ np.linalg.lstsq(columns, y, rcond=None)[0] - y) ** 2))

    torch.manual_seed(0)
    inputs, targets = torch.from_numpy(x).float(), torch.from_numpy(y).float().view(-1, 1)
    model = nn.Linear(x.shape[1], 1)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        training.fit(
            model,
            optimizer,
            lambda model, batch: F.mse_loss(model(batch[0]), batch[1]),
            DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True),
            epochs=options.epochs,
            validate=lambda model: F.mse_loss(model(inputs), targets).item(),
            scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
            log=training.CSVLog(log),
        )
        with log.open(newline="") as file:
            found = [float(row["value"]) for row in csv.DictReader(file) if row["name"] == "validation"]
    print(f"mean squared error: {found[-1]:.4f}, of least squares {least:.4f}")
    with torch.no_grad():
        predicted = model(inputs)
    draw(found, least, predicted.view(-1).numpy(), y, options.picture)


def draw(losses: list[float], least: float, predicted: np.ndarray, true: np.ndarray, file: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    left.semilogy([loss - least + 1e-12 for loss in losses])
    left.set(xlabel="epoch", title="error above that of least squares")
    right.plot(true, predicted, ".")
    right.set(xlabel="progression", ylabel="predicted", title="patients, in standard deviations")
    figure.tight_layout()
    figure.savefig(file)
    print(f"drawn: {file}")


if __name__ == "__main__":
    main()
