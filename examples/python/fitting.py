"""The same decay fitted three ways: an expression to a table, a Python function to arrays, and a loss of one's own."""
from pathlib import Path

import gradus as gd

TABLE = Path(__file__).resolve().parents[1] / "data" / "decay.csv"


def main():
    fit = gd.fit("a*exp(-b*t)+c", TABLE, params={"a": 1, "b": 1, "c": 0}, derive={"halflife": "log(2)/b"})
    print(fit)

    rows = [line.split(",") for line in TABLE.read_text().splitlines()]
    t = gd.tensor([float(row[rows[0].index("t")]) for row in rows[1:]])
    y = gd.tensor([float(row[rows[0].index("y")]) for row in rows[1:]])
    curve = gd.curve_fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, t, y, p0=[1, 1, 0])
    print(curve)

    def absolute(a, b, c):  # the sum of absolute residuals, smoothed: outliers count less
        r = a * gd.exp(-b * t) + c - y
        return (r * r + 1e-4).sqrt().sum()

    robust = gd.minimize(absolute, {"a": 1.0, "b": 1.0, "c": 0.0})
    print("least absolute residuals:", {name: round(x.item(), 4) for name, x in robust.x.items()}, robust.message)
    return fit.params, curve.params


if __name__ == "__main__":
    main()
