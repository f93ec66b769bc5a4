#!/usr/bin/env python3
"""scale_model.py [--from WORLD.json] [--trace FOLDER]: seconds of a training step with 1 to 1024 processes.

The model, for P parameters in f32 (P4 = 4 P bytes), a batch of R rows, n processes, messages that take L seconds and B bytes a
second, F operations per second and O seconds of optimizer per parameter:

    computing    6 P R / (n F)                                        forward and backward
    agreeing     (n-1) L for each bucket of 25 MB                     all hear from all; of more than 64 rank 0, which answers: twice that
    all_reduce   2 (n-1) L a bucket + 2 P4 (n-1) / (n B)              slices to their owners, results to all
    scatter, gather    half of that each
    optimizer    O P, shared O P / n

    shard none        computing + agreeing + all_reduce + optimizer
    shard state, gradients    computing + 2 agreeing + scatter + gather + optimizer shared

Nothing overlaps in it.  Inputs are in scale_inputs.json; --from takes them from what `./dev bench world --json` printed.  --trace
writes NAME.jsonl for `gradus plot`, a line for each doubling (tools/docs/make_pictures draws docs/scale.svg so); without, a table is printed.
"""
import json
import math
import sys
from pathlib import Path

INPUTS = Path(__file__).with_name("scale_inputs.json")
MODES = ("none", "state", "gradients")
COUNTS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
SMALL = 784 * 256 + 256 + 256 * 10 + 10  # parameters of the network of the benchmark


def measured(path):
    """The inputs from the lines of the benchmark."""
    rows = {row["name"]: row for row in json.loads(Path(path).read_text(encoding="utf-8"))}
    train = rows["784-256-10, batch 1024, 8 microbatches"]["value"] * 1e-3
    return {
        "latency_s": rows["message of nothing, one way"]["value"] * 1e-6,
        # of two processes each sends half of the bytes twice
        "bytes_a_second": 100e6 / (rows["exact all_reduce, 100 MB, 2 processes"]["value"] * 1e-3),
        "operations_a_second": 6 * SMALL * 1024 / train,
        "optimizer_s_a_parameter": rows["adam, 8M parameters, 1 process"]["value"] * 1e-3 / 8e6,
    }


def step_time(i, n, mode):
    """Seconds of one step."""
    count, rows = i["parameters"], i["rows"]
    size = 4 * count
    buckets = math.ceil(size / 25e6)
    latency, moved = (n - 1) * i["latency_s"], size * (n - 1) / n / i["bytes_a_second"]
    agreeing, half = (1 if n <= 64 else 2) * buckets * latency, buckets * latency + moved
    computing = 6 * count * rows / n / i["operations_a_second"]
    optimizer = i["optimizer_s_a_parameter"] * count
    if mode == "none":
        return computing + agreeing + 2 * half + optimizer
    return computing + 2 * agreeing + 2 * half + optimizer / n


def main():
    arguments = sys.argv[1:]
    inputs = json.loads(INPUTS.read_text(encoding="utf-8"))
    if arguments[:1] == ["--from"]:
        inputs.update(measured(arguments[1]))
        INPUTS.write_text(json.dumps(inputs, indent=2) + "\n", encoding="utf-8")
        arguments = arguments[2:]
    if arguments[:1] == ["--trace"]:
        for mode in MODES:
            lines = [json.dumps({"step": math.log2(n), "loss": step_time(inputs, n, mode)}) for n in COUNTS]
            Path(arguments[1], f"{mode}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    print("| processes | " + " | ".join(f"`{mode}`" for mode in MODES) + " |\n|---|" + "---|" * len(MODES))
    for n in COUNTS:
        print(f"| {n} | " + " | ".join(f"{step_time(inputs, n, mode):.3g} s" for mode in MODES) + " |")


if __name__ == "__main__":
    main()
