#!/usr/bin/env python3
"""make_data.py [FOLDER]: the small data sets of examples/data, made from formulas and a fixed seed.

  decay.csv     t, y            y = 5 exp(-0.5 t) + 1, noise 0.08
  peaks.csv     x, y, sigma     two Gaussian peaks on an exponential background; the noise sigma grows with y
  rates.csv     c, v, sv        v = 10 c / (2 + c), noise sv; what is written for c is off by 0.3
  flowers.csv   four lengths and a label of three kinds; the kinds overlap a little
  spirals.csv   x, y, arm       three arms that no straight line tells apart
  digits-images.idx3-ubyte.gz, digits-labels.idx1-ubyte.gz
                8 x 8 pictures of seven-segment digits, shifted and noisy, in the format of MNIST
"""
import gzip
import math
import random
import struct
import sys
from pathlib import Path


def write_csv(path, header, rows):
    lines = [",".join(header)] + [",".join(v if isinstance(v, str) else f"{v:.4f}" for v in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def decay(rng):
    times = [0.25 * i for i in range(41)]
    return [(t, 5 * math.exp(-0.5 * t) + 1 + rng.gauss(0, 0.08)) for t in times]


def rates(rng):
    concentrations = [0.4 * 1.28**i for i in range(16)]
    return [(c + rng.gauss(0, 0.3), 10 * c / (2 + c) + rng.gauss(0, 0.35), 0.35) for c in concentrations]


def peaks(rng):
    rows = []
    for i in range(121):
        x = 2.0 * i
        y = 98 * math.exp(-0.0105 * x) + 100 * math.exp(-(((x - 67) / 23) ** 2)) + 72 * math.exp(-(((x - 179) / 18) ** 2))
        sigma = 0.5 + 0.02 * y
        rows.append((x, y + rng.gauss(0, sigma), sigma))
    return rows


def flowers(rng):
    kinds = {"ruby": (5.0, 3.4, 1.5, 0.3), "amber": (5.9, 2.8, 4.2, 1.3), "violet": (6.6, 3.0, 5.6, 2.0)}
    spread = (0.40, 0.32, 0.35, 0.22)
    rows = []
    for _ in range(80):
        for name, centre in kinds.items():
            size = rng.gauss(0, 0.5)  # a large flower is large in all its parts
            rows.append(tuple(max(0.1, c + s * (rng.gauss(0, 0.9) + size)) for c, s in zip(centre, spread)) + (name,))
    rng.shuffle(rows)
    return rows


def spirals(rng):
    rows = []
    for arm in range(3):
        for i in range(200):
            r = 0.15 + 0.85 * i / 200
            angle = 2 * math.pi * arm / 3 + 4.2 * r
            rows.append((r * math.cos(angle) + rng.gauss(0, 0.02), r * math.sin(angle) + rng.gauss(0, 0.02), "abc"[arm]))
    rng.shuffle(rows)
    return rows


SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]


def digit_picture(rng, digit):
    """Rows of 8 bytes: the segments as strokes two to four pixels from the edge, shifted by up to one, with noise."""
    dx, dy = rng.randint(-1, 1), rng.randint(0, 1)
    top, middle, bottom, left, right = dy, 3 + dy, 6 + dy, 2 + dx, 5 + dx
    lit = set()
    for s in SEGMENTS[digit]:
        if s in "agd":
            row = {"a": top, "g": middle, "d": bottom}[s]
            lit |= {(row, c) for c in range(left, right + 1)}
        else:
            column = right if s in "bc" else left
            first, last = (top, middle) if s in "bf" else (middle, bottom)
            lit |= {(r, column) for r in range(first, last + 1)}
    values = []
    for r in range(8):
        for c in range(8):
            v = rng.gauss(200, 30) if (r, c) in lit and rng.random() > 0.04 else rng.gauss(25, 25)
            values.append(min(255, max(0, round(v))))
    return bytes(values)


def write_idx(path, shape, data):
    header = bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape)
    path.write_bytes(gzip.compress(header + data, compresslevel=9, mtime=0))


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(20250)
    write_csv(folder / "decay.csv", ("t", "y"), decay(rng))
    write_csv(folder / "peaks.csv", ("x", "y", "sigma"), peaks(rng))
    write_csv(folder / "flowers.csv", ("sepal_length", "sepal_width", "petal_length", "petal_width", "kind"), flowers(rng))
    write_csv(folder / "spirals.csv", ("x", "y", "arm"), spirals(rng))
    labels = [i % 10 for i in range(1000)]
    rng.shuffle(labels)
    write_idx(folder / "digits-images.idx3-ubyte.gz", (1000, 8, 8), b"".join(digit_picture(rng, d) for d in labels))
    write_idx(folder / "digits-labels.idx1-ubyte.gz", (1000,), bytes(labels))
    write_csv(folder / "rates.csv", ("c", "v", "sv"), rates(rng))


main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "examples" / "data")
