"""scipy_train.py THREADS [SPLITS]: gradus train (the program that $GRADUS names) and scikit-learn's MLPClassifier and MLPRegressor, both with
default settings, the latter with standardised inputs, on five data sets, over SPLITS (20) splits into training and test rows.  A line a data set:

    NAME DIFFERENCE ERROR SECONDS SECONDS

The mean difference of the scores on the test rows (accuracy, R2; above 0: gradus is better), its standard error, the mean times of
gradus, with its start and the reading of the table, and of scikit-learn's fit alone.  One thread each, in turn."""
import json
import os
import subprocess
import tempfile
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

warnings.filterwarnings("ignore")


def table():
    """4000 rows of 12 numbers, three classes by curved borders with noise."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4000, 12))
    score = np.stack([np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2], x[:, 3] ** 2 - 1 + x[:, 4], x[:, 5] - x[:, 0] * x[:, 6]], axis=1)
    return x, (score + rng.normal(scale=0.3, size=score.shape)).argmax(axis=1)


def sets():
    yield "digits", True, *load_digits(return_X_y=True)
    yield "cancer", True, *load_breast_cancer(return_X_y=True)
    yield "diabetes", False, *load_diabetes(return_X_y=True)
    yield "friedman1", False, *make_friedman1(n_samples=1000, n_features=10, noise=1.0, random_state=0)
    yield "table", True, *table()


def write(path, x, y):
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    frame["y"] = y
    frame.to_csv(path, index=False, float_format="%.9g")


def ours(folder, seed):
    """Seconds of training, score on the test rows."""
    model = folder / "m.safetensors"
    begin = time.perf_counter()
    train = [GRADUS, "train", folder / "train.csv", "--target", "y", "--seed", str(seed), "--threads", "1", "--json", "--out", model]
    subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    score = [GRADUS, "predict", model, folder / "test.csv", "--score", "--json"]
    result = json.loads(subprocess.run(score, check=True, capture_output=True, text=True).stdout)
    return seconds, result.get("accuracy", result.get("r2"))


def theirs(parts, classes, seed):
    model = make_pipeline(StandardScaler(), (MLPClassifier if classes else MLPRegressor)(random_state=seed))
    begin = time.perf_counter()
    model.fit(parts[0], parts[2])
    return time.perf_counter() - begin, model.score(parts[1], parts[3])


def compare(folder, name, classes, x, y, splits):
    times, differences = [], []
    for k in range(splits):
        parts = train_test_split(x, y, test_size=0.25, random_state=k, stratify=y if classes else None)
        write(folder / "train.csv", parts[0], parts[2])
        write(folder / "test.csv", parts[1], parts[3])
        (our_time, our_score), (their_time, their_score) = ours(folder, k), theirs(parts, classes, k)
        times.append((our_time, their_time))
        differences.append(our_score - their_score)
    error = np.std(differences, ddof=1) / np.sqrt(splits)
    mean = np.mean(times, axis=0)
    print(name, f"{np.mean(differences):.6f} {error:.6f} {mean[0]:.6f} {mean[1]:.6f}", flush=True)


GRADUS = os.environ.get("GRADUS", "gradus")
SPLITS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
with tempfile.TemporaryDirectory() as name:
    for row in sets():
        compare(Path(name), *row, SPLITS)
