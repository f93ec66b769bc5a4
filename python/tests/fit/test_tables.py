"""Tables of Python: dicts, data frames, structured arrays and Arrow streams give the columns that are used, and refuse others by name."""
import datetime
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import gradus as gd
from gradus import _tables

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import arrow_stream  # noqa: E402

NAN = float("nan")


def doubles(*v):
    return np.array(v, "f8").tobytes()


def texts(*words, wide=False):
    """Offsets and bytes."""
    ends = np.cumsum([0] + [len(w.encode()) for w in words])
    return [None, ends.astype("i8" if wide else "i4").tobytes(), "".join(words).encode()]


def views(*words):
    """The layout of "vu": 16 bytes per word, longer ones in a buffer of their own."""
    rows, far = b"", b""
    for w in words:
        b = w.encode()
        if len(b) <= 12:
            rows += struct.pack("<i12s", len(b), b)
        else:
            rows += struct.pack("<i4sii", len(b), b[:4], 0, len(far))
            far += b
    return [None, rows, far, struct.pack("<q", len(far))]


def taken(stream, *names):
    return {n: t.tolist() for n, t in _tables.columns_of(stream, list(names), "fit").items()}


def test_numbers_of_several_batches_with_missing_cells():
    stream = arrow_stream.Stream([
        ("x", "g", [dict(length=2, buffers=[None, doubles(1, 2)]), dict(length=3, buffers=[b"\x05", doubles(3, 9, 5)], null_count=1)]),
        ("n", "s", [dict(length=2, buffers=[None, struct.pack("<2h", -3, 4)]), dict(length=3, buffers=[None, struct.pack("<4h", 0, 5, 6, 7)], offset=1)]),
        ("flag", "b", [dict(length=2, buffers=[None, b"\x04"], offset=1), dict(length=3, buffers=[None, b"\xa0"], offset=5)]),  # bits from 1, and from 5
        ("none", "n", [dict(length=2, buffers=[]), dict(length=3, buffers=[])])])
    found = taken(stream, "x", "n", "flag", "none")
    assert found["x"] == pytest.approx([1, 2, 3, NAN, 5], nan_ok=True) and found["n"] == [-3, 4, 5, 6, 7]
    assert found["flag"] == [0, 1, 1, 0, 1] and all(v != v for v in found["none"])


def test_empty_batches_nan_and_the_index_of_pandas():
    stream = arrow_stream.Stream([  # a batch without rows has no memory; NaN is missing, as null is; pandas' index stands behind the columns
        ("x", "g", [dict(length=2, buffers=[None, doubles(1, 2)]), dict(length=0, buffers=[None, None]), dict(length=2, buffers=[None, doubles(NAN, 4)])]),
        ("who", "u", [dict(length=2, buffers=texts("a", "b")), dict(length=0, buffers=[None, None, None]), dict(length=2, buffers=texts("a", "b"))]),
        ("__index_level_0__", "l", [dict(length=2, buffers=[None, struct.pack("<2q", 7, 8)]), dict(length=0, buffers=[None, None]),
                                    dict(length=2, buffers=[None, struct.pack("<2q", 9, 10)])])])
    assert taken(stream, "x")["x"] == pytest.approx([1, 2, NAN, 4], nan_ok=True)
    assert taken(stream, "x", "__index_level_0__")["__index_level_0__"] == [7, 8, 9, 10]
    assert taken(stream, "who")["who"] == [0, 1, 0, 1]


def test_streams_end_what_they_give():
    arrow_stream.ENDED.clear()
    stream = arrow_stream.Stream([("x", "g", [dict(length=3, buffers=[None, doubles(1, 2, 3)])]), ("y", "g", [dict(length=3, buffers=[None, doubles(2, 4, 6)])])])
    assert gd.fit("a*x", stream, params={"a": 1}).params["a"] == pytest.approx(2)
    assert arrow_stream.ENDED[arrow_stream.CStream] == 1 and arrow_stream.ENDED[arrow_stream.Schema] == 1
    gd.Model("a*x").fit(stream, y="y", a=1)
    broken = arrow_stream.Stream([("x", "g", [dict(length=1, buffers=[None, doubles(1)])] * 3)], fails=True)
    with pytest.raises(gd.Error, match="the disk is gone"):
        taken(broken, "x")
    with pytest.raises((gd.Error, KeyError), match="z"):
        taken(stream, "z")


def test_words_of_each_layout_are_classes():
    words = ["ann", "a name of more than twelve bytes", "\u00e4", "bob"]
    level = [1.0, 2.0, 3.0, 4.0]
    for fmt, buffers in (("u", texts(*words)), ("U", texts(*words, wide=True)), ("vu", views(*words))):
        stream = arrow_stream.Stream([("who", fmt, [dict(length=4, buffers=buffers)]), ("x", "g", [dict(length=4, buffers=[None, doubles(*level)])]),
                                      ("y", "g", [dict(length=4, buffers=[None, doubles(1, 2, 3, 4)])])])
        fits = gd.fit_many("a*x", stream, by="who", params={"a": 2})
        assert fits["who"][:2] == words[:2] and fits["who"][-1] == "bob" and fits["points"][0] == 1, fmt
    # a dictionary of its own in each batch
    batch = lambda codes, *known: dict(length=len(codes), buffers=[None, bytes(codes)], dictionary=("u", dict(length=len(known), buffers=texts(*known))))  # noqa: E731
    stream = arrow_stream.Stream([("who", "c", [batch([0, 1], "ann", "bob"), batch([1, 0], "ann", "eve")]),
                                  ("x", "g", [dict(length=2, buffers=[None, doubles(1, 2)])] * 2), ("y", "g", [dict(length=2, buffers=[None, doubles(1, 2)])] * 2)])
    fits = gd.fit_many("a*x", stream, by="who", params={"a": 2})
    assert fits["who"] == ["ann", "bob", "eve"] and fits["points"] == [2, 1, 1]
    assert ">eve<" in fits.plot(groups=["ann", "eve"]).svg


def test_dates_with_zones_and_memory_without_alignment():
    seconds = [1.6e9, 1.6e9 + 0.25]
    stream = arrow_stream.Stream([("when", "tsu:Europe/Berlin", [dict(length=2, buffers=[None, np.array([v * 1e6 for v in seconds], "i8").tobytes()])]),
                                  ("day", "tdD", [dict(length=2, buffers=[None, struct.pack("<2i", 1, 2)])])])
    assert taken(stream, "when", "day") == {"when": seconds, "day": [86400.0, 172800.0]}
    odd = np.frombuffer(b"\0" + doubles(1, 2, 3), "f8", offset=1, count=3)  # f64 at an odd address
    assert not odd.flags.aligned and taken({"x": odd}, "x")["x"] == [1, 2, 3]


def test_what_is_not_used_is_not_looked_at():
    stream = arrow_stream.Stream([("x", "g", [dict(length=2, buffers=[None, doubles(1, 2)])]), ("y", "g", [dict(length=2, buffers=[None, doubles(1, 2)])]),
                                  ("nested", "+l", [dict(length=2, buffers=[None, struct.pack("<3i", 0, 0, 0)])])])
    assert gd.fit("a*x", stream, params={"a": 2}).success
    with pytest.raises(gd.FormatError, match=r"column 'nested' is of format '\+l'"):
        gd.fit("a*nested", stream, params={"a": 2})

    class Odd:
        def __str__(self):
            raise AssertionError("looked at")
    mixed = np.array([Odd(), 3], object)
    assert gd.fit("a*x", {"x": [1.0, 2.0], "y": [1.0, 2.0], "odd": mixed}, params={"a": 2}).success
    with pytest.raises(TypeError, match="column 'z' is of dtype complex128"):
        gd.fit("a*z", {"z": np.array([1j]), "y": [1.0]}, params={"a": 2})
    with pytest.raises(TypeError, match="not list"):
        gd.fit("a*x", [1, 2], params={"a": 1})
    with pytest.raises(TypeError, match="no columns"):
        gd.fit("a*x", {}, params={"a": 1})


def test_columns_of_objects():
    column = lambda values: _tables._column("c", values, "fit")[1:]  # noqa: E731
    kind, numbers = column(np.array([1, None, 2.5, NAN], object))
    assert kind == "numbers" and numbers.tolist() == pytest.approx([1, NAN, 2.5, NAN], nan_ok=True)
    day = datetime.date(1970, 1, 2)
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    kind, dates = column([day, None, datetime.datetime(1970, 1, 1, 2, tzinfo=berlin)])
    assert kind == "dates" and dates.tolist() == pytest.approx([86400, NAN, 3600], nan_ok=True)
    assert column(np.array(["1970-01-02", "NaT"], "M8[D]"))[1].tolist() == pytest.approx([86400, NAN], nan_ok=True)
    assert column(["ann", None, "", 3]) == ("words", ["ann", None, None, "3"]) and column(np.array(["a", "b"])) == ("words", ["a", "b"])
    assert column(np.array([b"a"])) == ("words", ["a"]) and column(np.array([1, 2], "u2"))[1].tolist() == [1, 2]
    assert column(np.array([1, 2], ">f8"))[1].tolist() == [1, 2] and column([True, False])[1].tolist() == [True, False]
    assert _tables.as_read_from_text([("c", "words", ["1", None, "2.5"])])[0][2].tolist() == pytest.approx([1, NAN, 2.5], nan_ok=True)
    assert _tables.as_read_from_text([("c", "words", ["1970-01-02T00:00", None])])[0][1] == "dates"


def test_memory_is_shared():
    x, y = np.arange(4.0), np.arange(4.0)
    for table in ({"x": x, "y": y}, {"x": x, "y": y, "who": np.array(list("abcd"))}):
        columns = {n: v for n, _, v in _tables.read(table, "fit")}
        x[0] = 7
        assert columns["x"].tolist()[0] == 7
        x[0] = 0
    block = np.zeros((3, 2))  # a data frame's columns lie with a stride
    assert _tables.read({"x": block[:, 1]}, "fit")[0][2].shape == (3,)
    structured = np.array([(1.0, 2), (2.0, 4)], dtype=[("x", "f8"), ("y", "i4")])
    assert gd.fit("a*x", structured, params={"a": 1}).params["a"] == pytest.approx(2)


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "y": pandas.array([2, 4, None], "Int64"), "odd": [1, "a", None], "cat": pandas.Categorical(["a", "b", None])},
                             index=[5, 6, 7])
    frame["when"] = pandas.to_datetime(["1970-01-02", None, "1970-01-03"]).tz_localize("UTC")
    assert taken(frame, "y")["y"] == pytest.approx([2, 4, NAN], nan_ok=True)
    assert taken(frame, "when")["when"] == pytest.approx([86400, NAN, 172800], nan_ok=True)
    assert gd.fit("a*x", frame, params={"a": 1}, missing="drop").points == 2
    assert gd.fit_many("a*x", frame[:2], y="x", by="cat", params={"a": 1})["cat"] == ["a", "b"]
    with pytest.raises(ValueError, match="the same name, 'x'"):
        gd.fit("a*x", frame[["x", "x"]], params={"a": 1})
    shared = pandas.DataFrame({"x": np.arange(3.0)})
    assert np.shares_memory(_tables.read(shared, "fit")[0][2].numpy(), shared["x"].to_numpy())


def test_frames_of_polars_and_tables_of_pyarrow():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    x, y, who = [1.0, 2.0, 3.0, 4.0], [2, None, 6, 8], ["ann", "bob", "eve", "ann"]
    whens = [datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)] * 4
    for table in (polars.DataFrame({"x": x, "y": y, "who": who, "list": [[1], [2], [3], [4]], "when": whens}),
                  polars.DataFrame({"x": x, "y": y, "who": who, "when": whens}).with_columns(polars.col("who").cast(polars.Categorical)),
                  pyarrow.table({"x": x, "y": y, "who": who, "list": [[1], [2], [3], [4]], "when": whens}),
                  pyarrow.table({"x": x, "y": y, "who": pyarrow.array(who).dictionary_encode()}),
                  pyarrow.concat_tables([pyarrow.table({"x": x, "y": y, "who": who}).slice(0, 1), pyarrow.table({"x": x, "y": y, "who": who}).slice(1, 3)])):
        assert gd.fit("a*x", table, params={"a": 1}, missing="drop").points == 3
        assert gd.fit_many("a*x", table, y="x", by="who", params={"a": 1}, missing="drop")["points"] == [2, 1, 1]
        assert taken(table, "y")["y"] == pytest.approx([2, NAN, 6, 8], nan_ok=True)
        assert gd.Model("a*x").fit(table, y="y", a=1, nan_policy="omit").params["a"].value == pytest.approx(2)
        assert gd.train(table.select(["x", "who"]), target="x", model="linear", epochs=2).predict(table).shape == (4,)


def test_columns_have_names_of_any_script():
    pd = pytest.importorskip("pandas")
    t = np.linspace(0, 3, 20)
    table = pd.DataFrame({"größe": t, "高さ": 2 * np.exp(-0.7 * t), "my col": t})
    fit = gd.fit("高さ = α*exp(-β*größe)", table, params={"α": 1, "β": 1})
    assert fit.params["α"] == pytest.approx(2) and fit.params["β"] == pytest.approx(0.7)
    other = gd.fit(lambda größe, α, β: α * gd.exp(-β * größe), table, y="高さ", params={"α": 1, "β": 1}, bound=["β>0"])
    assert other.params["β"] == pytest.approx(0.7)
    assert gd.fit("高さ = α*exp(-β*`my col`)", table, params={"α": 1, "β": 1}).params["β"] == pytest.approx(0.7)
    with pytest.raises(gd.ParseError, match="unknown name 'grösse', did you mean 'größe'"):
        gd.fit("高さ = α*exp(-β*grösse)", table, params={"α": 1, "β": 1})
    model = gd.Model("α*exp(-β*größe)", independent_vars=["größe"])
    assert model.fit(table["高さ"], größe=table["größe"], α=1, β=1).best_values["β"] == pytest.approx(0.7)
