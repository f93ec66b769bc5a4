"""gradus.train: tables of Python, what models answer, and mistakes."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradus as gd

FLOWERS = Path(__file__).parents[3] / "examples" / "data" / "flowers.csv"
SETTINGS = {"target": "kind", "model": "mlp(8)", "epochs": 15, "seed": 3}


def columns():
    with open(FLOWERS) as f:
        names, *rows = [line.strip().split(",") for line in f]
    return {name: [row[i] if name == "kind" else float(row[i]) for row in rows] for i, name in enumerate(names)}


def test_paths_dicts_frames_and_arrays_give_the_same_bits():
    pandas = pytest.importorskip("pandas")
    table = columns()
    kinds = [("kind", "U10")]
    array = np.array(list(zip(*table.values())), dtype=[(name, float) for name in table if name != "kind"] + kinds)
    want = gd.train(FLOWERS, **SETTINGS).probabilities(FLOWERS).numpy()
    for given in (table, pandas.DataFrame(table), array, {k: v if k == "kind" else np.array(v) for k, v in table.items()}):
        model = gd.train(given, **SETTINGS)
        assert (model.probabilities(given).numpy() == want).all()
    assert model.predict(table) == [model.classes[k] for k in want.argmax(1)]
    assert model.score(table)["accuracy"] == np.mean([a == b for a, b in zip(model.predict(table), table["kind"])])


def test_numbers_are_predicted_from_words_dates_and_holes():
    rng = np.random.default_rng(1)
    days = np.datetime64("2024-01-01") + rng.permutation(120)
    who = [["ann", "bob", None][i % 3] for i in range(120)]
    x = rng.normal(size=120)
    y = 2 * x + np.array([1.0 if w == "ann" else -1.0 for w in who])
    x[7] = np.nan
    table = {"day": days, "who": who, "x": x, "y": y}
    model = gd.train(table, "y", model="linear", chain="lbfgs | strong_wolfe", batch=0, epochs=60, dtype="f64", split="random")
    assert model.task == "regress" and model.classes == [] and model.features == ["day", "who", "x"]
    answers = model.predict(table)
    assert answers.shape == (120,)
    off = np.delete(answers.numpy() - y, 7)
    assert np.abs(off).max() < 0.1
    all_rows = model.predict(table).numpy() - y
    assert abs(model.score(table)["rmse"] - np.sqrt(np.mean(all_rows ** 2))) < 1e-9


def test_a_saved_model_answers_the_same_also_in_the_program(tmp_path):
    path = tmp_path / "m.safetensors"
    model = gd.train(FLOWERS, **SETTINGS)
    model.save(path)
    again = gd.load_model(path)
    assert (again.probabilities(FLOWERS).numpy() == model.probabilities(FLOWERS).numpy()).all()
    assert again.result["epochs"] == 15 and again.result["training"] == {}
    run = subprocess.run([sys.executable, "-m", "gradus", "predict", str(path), str(FLOWERS)], capture_output=True, text=True)
    assert [line.split(",")[0] for line in run.stdout.splitlines()[1:]] == model.predict(FLOWERS)


def test_no_process_is_started(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a process was started")

    for name in ("Popen", "run"):
        monkeypatch.setattr(subprocess, name, refuse)
    monkeypatch.setattr(os, "posix_spawn", refuse)
    assert gd.train(columns(), **SETTINGS).predict(columns())


def test_epochs_are_told_and_an_exception_ends_the_training():
    seen = []
    model = gd.train(FLOWERS, **SETTINGS, epoch_done=seen.append)
    assert [e["epoch"] for e in seen] == list(range(1, 16))
    assert seen[-1]["step"] == model.result["steps"] and 0 <= seen[-1]["validation"]["accuracy"] <= 1

    def stop(epoch):
        if epoch["epoch"] == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        gd.train(FLOWERS, **SETTINGS, epoch_done=stop)


def test_signals_end_the_training_and_what_there_is_is_saved(tmp_path):
    path = tmp_path / "m.safetensors"

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            gd.train(FLOWERS, **{**SETTINGS, "epochs": 10**9}, patience=0, out=path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert gd.load_model(path).result["epochs"] > 0
    assert gd.train(FLOWERS, **SETTINGS).classes  # the context works


def test_training_goes_on(tmp_path):
    path = tmp_path / "run.safetensors"
    whole = gd.train(FLOWERS, **SETTINGS)
    gd.train(FLOWERS, **{**SETTINGS, "epochs": 6}, out=path)
    rest = gd.train(FLOWERS, resume=path, epochs=15)
    assert (rest.probabilities(FLOWERS).numpy() == whole.probabilities(FLOWERS).numpy()).all()


def test_tensors_of_rows_are_answered(tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x @ [1, 2, -1] + 4)
    model = gd.train(tmp_path / "x.npy", str(tmp_path / "y.npy"), model="linear", chain="lbfgs | strong_wolfe", batch=0, dtype="f64")
    assert np.abs(model.predict(gd.tensor(x)).numpy() - (x @ [1, 2, -1] + 4)).max() < 1e-5
    assert model.features == []


@pytest.mark.parametrize("settings, error", [
    ({"target": "kin"}, "no column 'kin', did you mean 'kind'"),
    ({"target": None}, "target= is missing"),
    ({"stop_on": "rmse"}, "stop_on= rmse is for numbers"),
    ({"chain": "adm"}, "adm"),
    ({"epochs": -3}, "epochs=: '-3' is not a whole number"),
    ({"features": ["petal"]}, "no column 'petal'"),
])
def test_mistakes_are_named_as_they_are_written_here(settings, error):
    with pytest.raises(gd.Error) as raised:
        gd.train(columns(), **{**SETTINGS, **settings})
    assert error in str(raised.value) and "--" not in str(raised.value)


def test_other_mistakes():
    with pytest.raises(TypeError, match="no setting 'epoch'"):
        gd.train(columns(), **SETTINGS, epoch=3)
    with pytest.raises(TypeError, match="a table is a path, a dict of columns"):
        gd.train(3, "y")
    with pytest.raises(TypeError):
        gd.train(columns(), "kind", epochs="many")
    model = gd.train(columns(), **SETTINGS)
    with pytest.raises(gd.Error, match="the model has learnt from"):
        model.predict({"x": [1.0]})
    numbers = gd.train({"x": [1.0, 2, 3, 4], "y": [0.5, 1.5, 2.5, 3.5]}, "y", epochs=1)
    with pytest.raises(ValueError, match="predicts numbers"):
        numbers.probabilities({"x": [1.0]})


def test_a_closed_context_takes_its_models_along():
    c = gd.Context()
    before = gd.current_context()
    c.use()
    try:
        model = gd.train(columns(), **SETTINGS)
    finally:
        before.use()
    c.close()
    with pytest.raises(gd.Error, match="closed"):
        model.predict(columns())
