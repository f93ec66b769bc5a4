"""Training on tables, in this process: gradus.train and the model it gives."""
from __future__ import annotations

import os

from . import _core
from ._core import Tensor
from ._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    _Column = tuple[str, str, Any]

_LISTS = ("features", "ignore", "text", "groups", "schedules")


def _dates(name: str, values: Any) -> _Column:
    import numpy as np

    seconds = np.asarray(values).astype("datetime64[us]").astype("int64") / 1e6
    seconds[np.isnat(np.asarray(values))] = np.nan
    return name, "dates", tensor(np.ascontiguousarray(seconds, dtype=np.float64))


def _column(name: str, values: Any) -> _Column:
    """A column as the library takes it: numbers and dates as a tensor, words as a list with None for what is missing."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if str(getattr(values, "dtype", "")).startswith("datetime64"):
        return _dates(name, values)
    try:
        return name, "numbers", tensor(values)
    except (TypeError, ValueError, _core.Error):
        pass
    cells = [None if v is None or v != v or str(v) in ("<NA>", "NaT") else v for v in values]
    if all(v is None or isinstance(v, (int, float)) and not isinstance(v, bool) for v in cells):
        return name, "numbers", tensor([float("nan") if v is None else float(v) for v in cells])
    return name, "words", [None if v is None else str(v) for v in cells]


def _table(table: Any, who: str) -> str | list[_Column]:
    if isinstance(table, (str, os.PathLike)):
        return os.fspath(table)
    if getattr(getattr(table, "dtype", None), "names", None):  # a structured array
        table = {name: table[name] for name in table.dtype.names}
    elif hasattr(table, "columns") and hasattr(table, "__getitem__") and not isinstance(table, dict):  # pandas, polars
        table = [(str(name), table[name]) for name in table.columns]
    if isinstance(table, dict):
        table = [(str(name), values) for name, values in table.items()]
    if not isinstance(table, list) or not table:
        raise TypeError(f"{who}: a table is a path, a dict of columns, a data frame or a structured array")
    return [_column(name, values) for name, values in table]


class TrainedModel:
    """What train() and load_model() give: a network with what was learnt about the columns."""

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
        """The columns learnt from."""
        return list(self._about["features"])

    @property
    def result(self) -> dict[str, Any]:
        """What became of the training: measures on training and validation rows, epochs, best_epoch, steps, seconds, stopped, ..."""
        return dict(self._about)

    def _answers(self, table: Any, who: str) -> Tensor:
        return self._model.predict(table if isinstance(table, Tensor) else _table(table, who))

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
        """How good the model is on rows whose answers are known: loss, accuracy, f1 and auc, or rmse, mae and r2."""
        return self._model.score(_table(table, "score"), target)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model for load_model() and for `gradus predict`; train(out=...) keeps the optimizer's state too."""
        self._model.save(os.fspath(path))

    def __repr__(self) -> str:
        return f"TrainedModel({self._about['model']}, target='{self.target}', {len(self.features)} columns)"


def train(table: Any, target: str | None = None, *, epoch_done: Callable[[dict[str, Any]], object] | None = None, **settings: Any) -> TrainedModel:
    """Trains a model on a table, in this process, as the program `gradus train` does.

        model = gd.train("flowers.csv", target="kind", model="mlp(32)", epochs=60)
        model.predict({"petal_length": [1.4, 5.1], ...})

    table       a path (CSV; also rows as npy, IDX, safetensors), a dict of columns, a data frame, a structured array
    target      the column to predict; for arrays the path of a file
    epoch_done  called after each epoch with {"epoch", "step", "loss", "validation"}; an exception ends the training
    settings    those of `gradus train`: model, chain, loss, epochs, batch, validation, split, patience, stop_on, time, seed, seeds,
                features, ignore, text, groups, schedules, out, resume, trace, ..."""
    columns = _table(table, "train")
    given = dict(settings, target=target)
    for name in _LISTS:
        if given.get(name) is not None:
            given[name] = [given[name]] if isinstance(given[name], str) else list(map(str, given[name]))
    for name in ("path", "out", "resume", "trace", "events", "chain"):
        if given.get(name) is not None:
            given[name] = str(given[name])
    if isinstance(columns, str):
        given["path"] = columns
    return TrainedModel(_core._train(None if isinstance(columns, str) else columns, given, epoch_done))


def load_model(path: str | os.PathLike[str]) -> TrainedModel:
    """Reads a model that Model.save, train(out=...) or `gradus train` left."""
    return TrainedModel(_core._load_model(os.fspath(path)))
