"""Training on tables, in this process: gradus.train and the model it gives."""
from __future__ import annotations

import os

from . import _core
from ._core import Tensor
from ._tables import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_LISTS = ("features", "ignore", "text", "groups", "schedules")


class TrainedModel:
    """The result of train() and load_model(): a network with the encodings of its columns."""

    def __init__(self, model: _core._Model) -> None:
        self._model = model
        self._about = model.about()

    @property
    def task(self) -> str:
        """class or regress."""
        return str(self._about["task"])

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return str(self._about["target"])

    @property
    def classes(self) -> list[str]:
        """The classes in the order of the probabilities; empty if numbers are predicted."""
        return list(self._about["classes"])

    @property
    def features(self) -> list[str]:
        """The feature columns."""
        return list(self._about["features"])

    @property
    def result(self) -> dict[str, Any]:
        """Results of the training: measures on training and validation rows, epochs, best_epoch, steps, seconds, stopped, ..."""
        return dict(self._about)

    def _answers(self, table: Any, who: str) -> Tensor:
        return self._model.predict(table if isinstance(table, Tensor) else self._read(table, who))

    def _read(self, table: Any, who: str) -> Any:
        used = set(self.features)
        return read(table, who, (lambda name: name in used) if used else None)

    def predict(self, table: Any) -> Any:
        """The class of each row as a list, or the predicted numbers as a tensor [rows] ([rows, outputs] if there are several).

        table   as for train(), or a tensor of rows"""
        answers = self._answers(table, "predict")
        if self.classes:
            names = self.classes
            return [names[int(k)] for k in answers.argmax(1).tolist()]
        return answers.reshape(-1) if answers.shape[1] == 1 else answers

    def probabilities(self, table: Any) -> Tensor:
        """The probability of each class, [rows, classes]."""
        if not self.classes:
            raise ValueError("probabilities: this model predicts numbers")
        return self._answers(table, "probabilities")

    def score(self, table: Any, target: str | None = None) -> dict[str, float]:
        """Scores of the model on rows with known targets: loss, accuracy, f1 and auc, or rmse, mae and r2."""
        return self._model.score(read(table, "score"), target)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model for load_model() and for `gradus predict`; train(out=...) keeps the optimizer's state too."""
        self._model.save(os.fspath(path))

    def __repr__(self) -> str:
        return f"TrainedModel({self._about['model']}, target='{self.target}', {len(self.features)} columns)"


def train(table: Any, target: str | None = None, *, epoch_done: Callable[[dict[str, Any]], object] | None = None, **settings: Any) -> TrainedModel:
    """Trains a model on a table, in this process, as the program `gradus train` does.

        model = gd.train("flowers.csv", target="kind", model="mlp(32)", epochs=60)
        model.predict({"petal_length": [1.4, 5.1], ...})

    table       a path (CSV; also rows as npy, IDX, safetensors), a dict of columns, a data frame, a structured array,
                an Arrow table
    target      the column to predict; for arrays the path of a file
    epoch_done  called after each epoch with {"epoch", "step", "loss", "validation"}; an exception ends the training
    settings    those of `gradus train`: model, chain, loss, epochs, batch, validation, split, patience, stop_on, time, seed, seeds,
                features, ignore, text, groups, schedules, out, resume, trace, ..."""
    ignored = settings.get("ignore")
    left = {str(n) for n in ([ignored] if isinstance(ignored, str) else ignored or ())}
    columns = read(table, "train", lambda name: name not in left)
    given = dict(settings, target=target)
    for name in _LISTS:
        if given.get(name) is not None:
            given[name] = [given[name]] if isinstance(given[name], str) else list(map(str, given[name]))
    for name in ("path", "out", "resume", "trace", "events", "chain"):
        if given.get(name) is not None:
            given[name] = str(given[name])
    if isinstance(columns, tuple) and len(columns) == 1:
        given["path"], columns = columns[0], []
    return TrainedModel(_core._train(columns or None, given, epoch_done))


def load_model(path: str | os.PathLike[str]) -> TrainedModel:
    """Reads a model written by Model.save, train(out=...) or `gradus train`."""
    return TrainedModel(_core._load_model(os.fspath(path)))
