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


def test_numbers_are_coordinates():
    t = gd.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], axes="time, ch", labels={"time": np.array([0.0, 0.1, 1.5]), "ch": ["a", "b"]}).require_grad()
    assert t.coords == {"time": (0.0, 0.1, 1.5), "ch": ("a", "b")} and t.labels[0] == ("0.0", "0.1", "1.5")
    assert t.sel(time=0.1).tolist() == [3, 4] and t.sel(time=np.float64(1.5), ch="b").item() == 6 and t.sel(time=0).tolist() == [1, 2]
    assert t.sel(time=[1.5, 0]).tolist() == [[5, 6], [1, 2]] and t.sel(time=np.array([0.1])).coords["time"] == (0.1,)
    assert t.sel(time=slice(0.05, 1.5)).tolist() == [[3, 4], [5, 6]] and t.sel(time=slice(None, 0.1)).shape == (2, 2) and t.sel(time=slice(7, 8)).shape == (0, 2)
    assert t.sel(time=0.9, method="nearest").tolist() == [5, 6] and t.sel(time=[0.04, 0.09], method="nearest").coords["time"] == (0.0, 0.1)
    assert t.isel(time=2).tolist() == [5, 6] and t.sel(time="0.1").tolist() == [3, 4] and t.sel(ch=1).tolist() == [2, 4, 6]
    assert t.sel(time=np.array([True, False, True])).shape == (2, 2)
    t.sel(time=slice(0.1, 2)).sum().backward()
    assert t.grad.tolist() == [[0, 0], [1, 1], [1, 1]]
    years = gd.tensor([1.0, 2.0, 3.0], axes="year", labels={"year": [2001, 2002, 2003]})
    assert years.sel(year=2002).item() == 2 and years.sel(year=slice(2002, 2003)).tolist() == [2, 3] and years["2002"].item() == 2
    with pytest.raises(KeyError, match="no coordinate 0.7; the nearest is 0.1"):
        t.sel(time=0.7)
    with pytest.raises(ValueError, match="has no effect"):
        t.sel(ch="a", method="nearest")
    with pytest.raises(ValueError, match="method is 'nearest'"):
        t.sel(time=0.0, method="pad")
    with pytest.raises(TypeError, match="texts or numbers"):
        gd.tensor([1.0], axes="a", labels={"a": [None]})
    pandas = pytest.importorskip("pandas")
    assert t.to_pandas().loc[0.1, "b"] == 4 and isinstance(years.to_pandas(), pandas.Series) and years.to_pandas()[2002] == 2


def test_jacobians_and_hessians_keep_names_and_labels():
    matrix = gd.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], axes="row, p", labels={"row": ["u", "v"]})
    x = gd.tensor([1.0, 2.0, 3.0], axes="p", labels={"p": ["a", "b", "c"]})
    for j in (gd.jacobian(lambda v: matrix @ v, x), gd.jacrev(lambda v: matrix @ v)(x), gd.jacfwd(lambda v: matrix @ v)(x)):
        j = j[0] if isinstance(j, (tuple, list)) else j
        assert j.axes == ("row", "p") and j.labels == (("u", "v"), ("a", "b", "c")) and j.sel(row="v", p="c").item() == 6
    for h in (gd.hessian(lambda v: (v ** 3).sum(), x), gd.hessian(lambda v: (v ** 3).sum())(x)):
        assert h.axes == ("p", "p2") and h.labels[1] == ("a", "b", "c") and h.sel(p="b", p2="b").item() == 12
    own = gd.jacrev(lambda v: v ** 2)(x.require_grad())
    own.sum().backward()  # with their gradient
    assert x.grad.tolist() == [2, 2, 2]
    both = gd.jacobian(lambda v: v * 2, gd.ones((2, 2)).rename("p, p2"))
    both = both[0] if isinstance(both, (tuple, list)) else both
    assert both.axes == ("p", "p2", "p3", "p22")
    assert gd.jacobian(lambda v: v * 2, gd.ones(2)).axes == (None, None)
