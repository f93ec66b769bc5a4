"""Choosing, turning and naming by axes and labels; tables of pandas."""
import numpy as np
import pytest

import gradus as gd


def table():
    return gd.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], axes="row, col", labels={"row": ["a", "b"], "col": ["x", "y", "z"]})


def test_labels_choose_alone_in_lists_and_in_slices():
    t = table()
    assert t.sel(row="b").tolist() == [4, 5, 6] and t.sel(row="b", col="x").item() == 4
    assert t.sel(col=["z", "x"]).tolist() == [[3, 1], [6, 4]] and t.sel(col=["z", "x"]).labels[1] == ("z", "x")
    assert t.sel(col=slice("x", "y")).tolist() == [[1, 2], [4, 5]]  # the last is part of it
    assert t.sel(col=slice("y", None)).labels[1] == ("y", "z") and t.sel(col=slice(None, "y")).shape == (2, 2)
    assert t.sel(col=np.array(["y", "z"])).tolist() == [[2, 3], [5, 6]]
    assert t.sel(col=slice(0, 2)).shape == (2, 2) and t.sel(col=1).tolist() == [2, 5]
    for wrong, says in [({"col": "w"}, "no label 'w'"), ({"col": ["x", "w"]}, "no label 'w'"), ({"col": slice("x", "w")}, "no label 'w'"), ({"deep": 0}, "no axis 'deep'")]:
        with pytest.raises(KeyError, match=says):
            t.sel(**wrong)
    with pytest.raises(KeyError, match="no label 'q'"):
        gd.ones((2,)).rename("i").sel(i=["q"])


def test_places_choose_by_the_names_of_axes():
    t = table()
    assert t.isel(row=-1, col=[2, 0]).tolist() == [6, 4] and t.isel(col=slice(1, None)).labels[1] == ("y", "z")
    for wrong in ("x", ["x"], slice("x", None)):
        with pytest.raises(TypeError, match="by places, not by labels"):
            t.isel(col=wrong)


def test_a_chosen_part_has_its_gradient():
    t = table().require_grad()
    (t.sel(col=["z", "x"]) * gd.tensor([10.0, 1.0])).sum().backward()
    assert t.grad.tolist() == [[1, 0, 10], [1, 0, 10]] and t.grad.axes == ("row", "col")


def test_axes_are_turned_and_renamed_by_name():
    t = table()
    assert t.dims == t.axes == ("row", "col")
    for turned in (t.transpose("col", "row"), t.transpose(), t.transpose(0, 1), t.transpose(["col", "row"]), t.transpose((1, 0))):
        assert turned.axes == ("col", "row") and turned.tolist() == [[1, 4], [2, 5], [3, 6]]
    cube = gd.ones((2, 3, 4)).rename("a, b, c")
    assert cube.transpose("c", "a", "b").shape == (4, 2, 3) and cube.transpose(2, 0, 1).axes == ("c", "a", "b") and cube.transpose(0, 2).axes == ("c", "b", "a")
    for renamed in (t.rename(row="r"), t.rename({"row": "r"}), t.rename("r, col")):
        assert renamed.axes == ("r", "col") and renamed.labels == t.labels
    assert t.rename(row="col", col="row").axes == ("col", "row") and t.rename(row=None).axes == (None, "col")
    with pytest.raises(KeyError, match="no axis 'deep'"):
        t.rename(deep="d")
    with pytest.raises(KeyError, match="1 axes are named, the tensor has 2"):
        t.transpose("col")


def test_tables_of_pandas_have_the_labels():
    pandas = pytest.importorskip("pandas")
    t = table().require_grad()
    frame = t.to_pandas()
    assert frame.loc["b", "y"] == 5 and (frame.index.name, frame.columns.name) == ("row", "col")
    frame.loc["b", "y"] = 0
    assert t.sel(row="b", col="y").item() == 5
    row = t.sel(row="a").to_pandas()
    assert isinstance(row, pandas.Series) and row["z"] == 3 and gd.ones(3).to_pandas().index.tolist() == [0, 1, 2]
    with pytest.raises(gd.ShapeError, match="3 axes"):
        gd.ones((1, 1, 1)).to_pandas()
