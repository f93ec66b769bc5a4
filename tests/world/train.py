#!/usr/bin/env python3
"""train.py MPIRUN GRADUS [DEVICE]: `mpirun -n N gradus train`, `fit` and `minimize` give the files of one process, byte for byte.

Number of processes, threads and what is sharded change nothing; a run that was interrupted, or ended early, and goes on with another
number of processes ends as if never stopped; a user's mistake is reported once.  With a device: training there.
"""
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MPIRUN, GRADUS = sys.argv[1], os.path.abspath(sys.argv[2])
DEVICE = ["--device", sys.argv[3]] if len(sys.argv) > 3 else []
SECONDS = 120


def numbers(count, seed):
    """Between 0 and 1, from a generator of 64 bits."""
    state = seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 40) / 2**24


def make_table(path, rows):
    values = iter(list(numbers(4 * rows, 7)))
    lines = ["a,b,c,y"]
    for _ in range(rows):
        a, b, c, noise = (next(values) for _ in range(4))
        lines.append(f"{a:.5f},{b:.5f},{c:.5f},{2 * a * b - c * c + 0.1 * noise:.6f}")
    path.write_text("\n".join(lines) + "\n")


def make_npy(path, dtype, shape, data):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def make_images(folder, rows):
    pixels = [round(255 * v) for v in numbers(rows * 36, 3)]
    labels = [int(sum(pixels[36 * i : 36 * i + 18]) > sum(pixels[36 * i + 18 : 36 * i + 36])) for i in range(rows)]
    make_npy(folder / "images.npy", "|u1", (rows, 6, 6), bytes(pixels))
    make_npy(folder / "labels.npy", "<i8", (rows,), struct.pack(f"<{rows}q", *labels))


def make_matrix(folder, rows):
    x = list(numbers(3 * rows, 11))
    y = [x[3 * i] - 2 * x[3 * i + 1] ** 2 + 0.5 * x[3 * i + 2] for i in range(rows)]
    make_npy(folder / "X.npy", "<f8", (rows, 3), struct.pack(f"<{3 * rows}d", *x))
    make_npy(folder / "y.npy", "<f8", (rows,), struct.pack(f"<{rows}d", *y))


def launch(processes, words, command="train", **more):
    command = [GRADUS, command, *words]
    if processes > 1 or "--shard" in words:
        command = [MPIRUN, "-n", str(processes), "--oversubscribe", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **more)


def train(processes, out, words):
    done = launch(processes, [*words, *DEVICE, "--out", f"{out}.safetensors", "--trace", f"{out}.jsonl"])
    if done.returncode:
        sys.exit(f"{processes} processes, {' '.join(words)}: {done.stdout}{done.stderr}")
    told = [line for line in done.stdout.splitlines() if "rows/s" not in line and "processes (" not in line]
    told = [line for line in told if "microbatches of" not in line and ".safetensors" not in line]
    return told, Path(f"{out}.safetensors").read_bytes(), Path(f"{out}.jsonl").read_bytes()


def expect(condition, text):
    if not condition:
        sys.exit(f"train.py: {text}")


def same(what, got, want):
    for name, a, b in zip(("the output", "the checkpoint", "the trace"), got, want):
        if a != b:
            sys.exit(f"{what}: {name} differs from that of one process\n{a[:2000]}\n{b[:2000]}")


# processes, threads, what is sharded; with GD_WORLD_ALL all there are
LAUNCHES = {
    "mlp": [(2, 1, "state"), (3, 2, "gradients"), (8, 1, "none")],
    "conv": [(2, 2, "none"), (4, 1, "gradients"), (3, 1, "state")],
}
if DEVICE:  # of which each process takes its share of memory
    LAUNCHES = {"mlp": [(2, 1, "state"), (3, 1, "gradients"), (2, 1, "none")], "conv": [(2, 1, "gradients"), (3, 1, "state")]}
if os.environ.get("GD_WORLD_ALL"):
    ALL = list(itertools.product((1, 2, 3, 4, 8), (1, 2), ("none", "state", "gradients")))
    LAUNCHES = {"mlp": ALL, "conv": ALL}
WORDS = {
    "mlp": ["table.csv", "--target", "y", "--model", "mlp(9, dropout=0.2)", "--batch", "500", "--microbatch", "70", "--validation", "0.4"],
    "conv": ["images.npy", "--target", "labels.npy", "--model", "conv(4, dense=5)", "--microbatch", "7", "--stop-on", "auc"],
}


def every_number_of_processes_gives_the_same_files():
    want = {}
    for model, launches in LAUNCHES.items():
        words = [*WORDS[model], "--epochs", "3"]
        want[model] = train(1, "one", [*words, "--threads", "1"])
        same(f"{model}, 2 threads", train(1, "two", [*words, "--threads", "2"]), want[model])
        for processes, threads, shard in launches:
            more = ["--threads", str(threads), "--shard", shard]
            got = train(processes, "many", [*words, *more])
            same(f"{model}, {processes} processes, {' '.join(more)}", got, want[model])
    return want


def going_on_with_another_number_is_never_having_stopped(want):
    words = [*WORDS["mlp"], "--threads", "1"]
    train(3, "part", [*words, "--epochs", "1"])
    _, file, trace = train(2, "part", [*WORDS["mlp"][:3], "--resume", "part.safetensors", "--epochs", "3", "--threads", "1"])
    same("3 processes, then 2", (None, file, trace), (None, *want[1:]))
    # a run of one process that knew no microbatch: each computes whole batches
    words = [*WORDS["conv"][:5], "--threads", "1"]
    whole = train(1, "whole", [*words, "--epochs", "2"])
    train(1, "part", [*words, "--epochs", "1"])
    _, file, trace = train(2, "part", [*words[:3], "--resume", "part.safetensors", "--epochs", "2", "--threads", "1"])
    same("1 process, then 2", (None, file, trace), (None, *whole[1:]))


def fits_and_minima_have_the_same_bits():
    problems = {
        "fit": ["p*a*b - q*c^2 + r", "table.csv", "--param", "p=1", "--param", "q=0.5", "--param", "r=0", "--intervals", "profile"],
        "minimize": ["mean((X@w-y)^2)", "--param", "w=zeros(3)", "--data", "X=@X.npy", "--data", "y=@y.npy", "--split", "X,y", "--microbatch", "90"],
    }
    for command, words in problems.items():
        want = None
        for processes in (1, 3):
            done = launch(processes, [*words, "--json", "--out", "found.safetensors"], command)
            expect(done.returncode == 0 and not done.stderr, f"{command}, {processes} processes: {done.stderr}")
            told = json.loads(done.stdout)
            told.pop("seconds", None)
            got = told, Path("found.safetensors").read_bytes()
            want = want or got
            expect(got == want, f"{command}, {processes} processes: {got[0]}, one has {want[0]}")
    words = problems["minimize"]
    for instead, text in (
        (["sqrt(sum((X@w-y)^2))", *words[1:]], "--split: the loss is neither a sum nor a mean over the rows"),
        ([*words[:-4], "--split", "X,z"], "--split: there is no --data of the name 'z'"),
        ([*words[:-4], "--split", "X,w"], "--split: there is no --data of the name 'w'"),
        ([*words[:-4], "--microbatch", "5"], "minimize: --microbatch is for --split, which is not given"),
    ):
        done = launch(1, instead, "minimize")
        expect(done.returncode != 0 and f"gradus: {text}" in done.stderr, f"{instead}: {done.stderr}")
    # sums, and residuals: the loss of all rows at once, but for rounding
    for loss in ("sum((X@w-y)^2)", "X@w-y", "mean((X@w-y)^2)"):
        whole, cut = (
            json.loads(launch(1, [loss, *words[1:-4], *more, "--json"], "minimize").stdout)["loss"]
            for more in ([], words[-4:])
        )
        expect(abs(whole - cut) < 1e-9 * whole, f"{loss}: {cut} by microbatches, {whole} at once")


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def an_interrupted_run_is_saved_and_goes_on():
    words = [*WORDS["mlp"], "--epochs", "200", "--threads", "1"]
    _, file, _ = train(1, "whole", words)
    command = [MPIRUN, "-n", "3", "--oversubscribe", GRADUS, "train", *words, "--out", "broken.safetensors"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        while not run.stdout.readline().startswith("epoch"):
            expect(run.poll() is None, "no epoch was told")
        os.kill(children(run.pid)[1], signal.SIGTERM)  # one of them: all stop after the same step
        _, error = run.communicate(timeout=SECONDS)
    expect(error.count("gradus:") == 1 and "gradus: interrupted after" in error, f"interrupted: {error}")
    going = ["--resume", "broken.safetensors", "--threads", "2"]
    done = launch(2, [*WORDS["mlp"][:3], *going])
    expect(done.returncode == 0, f"going on: {done.stderr}")
    expect(Path("broken.safetensors").read_bytes() == file, "an interrupted run that went on has another end")


def a_mistake_is_told_once():
    for words, text in (
        (["table.csv", "--target", "z"], "table.csv: no column 'z'"),
        (["table.csv", "--targt", "y"], "train: unknown option '--targt'"),
        (["table.csv", "--target", "y", "--chain", "lr(1e30)", "--epochs", "2"], "train: the loss is"),
        (["table.csv", "--target", "y", "--shard", "gradients", "--reduce", "fast"], "train: --reduce fast is not for --shard gradients"),
        (["table.csv", "--target", "y", "--world", "threads:2"], "train: --world threads:2 is for programs"),
    ):
        done = launch(3, words)
        expect(done.returncode != 0, f"{words}: no failure")
        expect(done.stderr.count("gradus: ") == 1 and f"gradus: {text}" in done.stderr, f"{words}: {done.stderr}")


def ranks_that_are_given_something_else_are_told():
    """The last of three processes has other words; nobody waits, and nothing is written."""
    plain = ["table.csv", "--target", "y", "--model", "mlp(4)", "--epochs", "2", "--threads", "1"]
    minimum = ["sum((X@w-y)^2)", "--data", "X=@X.npy", "--data", "y=@y.npy", "--param", "w=[1,1,1]", "--split", "X,y"]
    for seed in ("3", "4"):
        train(1, "seed" + seed, [*plain, "--seed", seed])
    resumed = ["table.csv", "--target", "y", "--epochs", "4", "--resume"]
    Path("less.csv").write_text("\n".join(Path("table.csv").read_text().split("\n")[:-2]) + "\n")
    for command, words, other, text in (
        ("train", plain, [*plain[:6], "3"], "train: rank 2 brings --epochs 3, rank 0 --epochs 2"),
        ("train", plain, [*plain, "--microbatch", "7"], "train: rank 2 brings --microbatch 7, rank 0 no --microbatch"),
        ("train", plain, [*plain, "--bogus"], "rank 2: train: unknown option '--bogus'"),
        ("train", plain, ["none.csv", *plain[1:]], "rank 2: none.csv: cannot open"),
        ("train", plain, ["less.csv", *plain[1:]], "train: rank 2 brings data with the sum"),
        ("train", [*resumed, "seed3.safetensors"], [*resumed, "seed4.safetensors"], "train: rank 2 brings a checkpoint with the sum"),
        ("minimize", minimum, ["sum((X@w+y)^2)", *minimum[1:]], "minimize: rank 2 brings 'sum((X@w+y)^2)', rank 0 'sum((X@w-y)^2)'"),
        ("fit", ["p*a", "table.csv", "--y", "y", "--param", "p=1"], ["p*a", "table.csv", "--y", "y", "--param", "p=2"],
         "fit: rank 2 brings --param p=2, rank 0 --param p=1"),
    ):
        out = ["--out", "other.safetensors"] if command == "train" else []
        launcher = [MPIRUN, "--oversubscribe", "-n", "2", GRADUS, command, *words, *out, ":", "-n", "1", GRADUS, command, *other, *out]
        done = subprocess.run(launcher, capture_output=True, text=True, timeout=SECONDS)
        expect(done.returncode != 0 and f"gradus: {text}" in done.stderr, f"{other}: {done.stdout}{done.stderr}")
        expect(not Path("other.safetensors").exists(), f"{other}: a file was written")


def processes_without_work_are_told():
    plain = ["table.csv", "--target", "y", "--model", "mlp(4)", "--epochs", "1", "--threads", "1", "--microbatch", "20"]
    done = launch(3, plain)
    told = "microbatches of 20 rows, 2 in a batch: 1 of 3 processes without work"
    expect(done.returncode == 0 and told in done.stdout, done.stdout + done.stderr)
    minimum = ["mean((X@w-y)^2)", "--param", "w=zeros(3)", "--data", "X=@X.npy", "--data", "y=@y.npy", "--split", "X,y"]
    for microbatch, told in (
        ("0", "minimize: --split has no effect: with --microbatch 0 every process computes all rows"),
        (str(2**63 - 1), f"minimize: 800 rows in microbatches of {2**63 - 1}: 2 of 3 processes without work"),
    ):
        done = launch(3, [*minimum, "--microbatch", microbatch], "minimize")
        expect(done.returncode == 0 and done.stderr.count("gradus: ") == 1 and told in done.stderr, done.stderr)


def a_world_that_is_not_there_is_one_error():
    done = launch(2, WORDS["mlp"], env={**os.environ, "GRADUS_MPI": "/nonexistent.so"})
    told = "gradus: world 'mpi': the MPI plugin could not be loaded (/nonexistent.so"
    expect(done.returncode != 0 and told in done.stderr, done.stderr)
    expect("2 processes were started, --world self lets each run alone" in done.stderr, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_table(Path("table.csv"), 3000)
        make_images(Path(folder), 300)
        want = every_number_of_processes_gives_the_same_files()
        if DEVICE:
            going_on_with_another_number_is_never_having_stopped(want["mlp"])
            return
        make_matrix(Path(folder), 800)
        fits_and_minima_have_the_same_bits()
        going_on_with_another_number_is_never_having_stopped(want["mlp"])
        an_interrupted_run_is_saved_and_goes_on()
        a_mistake_is_told_once()
        ranks_that_are_given_something_else_are_told()
        processes_without_work_are_told()
        a_world_that_is_not_there_is_one_error()


main()
