#!/usr/bin/env python3
"""kill.py MPIRUN STEPS GRADUS TABLE [COUNT [SEED]]: one process of a training is ended at a random moment, COUNT times.

The training is in turns that of test_world_steps, by which checkpoints can be checked bit for bit, and `gradus train` with shared state.
Each time the others must be gone within ten seconds, the launcher's sentence or ours must name the rank, and the checkpoint
must be whole: of test_world_steps it has the bits of as many steps that nobody interrupted, with the other the program goes on
alone.  More runs have a launcher that ends nobody: a rank that is killed under --enable-recovery and ones that are only
stopped; the time-out names them.
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 3
LONGEST = 10.0  # seconds until all are gone


class Failure(Exception):
    pass


def rank_of(pid):
    """The rank that a process has been given, or None."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    found = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
    return int(found.group(1)) if found else None


def children_of(pid):
    """Ranks and processes that a launcher has started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return {}
    ranks = {rank_of(child): int(child) for child in text.split()}
    return {rank: child for rank, child in ranks.items() if rank is not None}


def is_there(pid):
    """Running, or stopped; not a body that nobody has buried yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"{what} took longer than {seconds:g} s")
        time.sleep(0.005)


def by_steps(state, timeout):
    return [STEPS, "train", str(state), "1000000", str(timeout)]


def by_gradus(state, _):
    return [GRADUS, "train", TABLE, "--target", "kind", "--model", "mlp(300)", "--batch", "24", "--epochs", "1000000",
            "--save-every", "0", "--threads", "1", "--shard", "state", "--out", str(state)]


def start(folder, training, timeout, *options):
    """A training that would take minutes, and its processes once it has saved."""
    state = folder / "state.safetensors"
    out = open(folder / "out", "w+")
    run = subprocess.Popen([MPIRUN, "-n", str(RANKS), "--oversubscribe", *options, *training(state, timeout)],
                           stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_until(lambda: state.exists() or run.poll() is not None, 60, "the first step")
        ranks = children_of(run.pid)
        if run.poll() is not None or len(ranks) != RANKS:
            raise Failure("the training did not start:\n" + (folder / "out").read_text())
    except Failure:
        run.kill()
        raise
    return run, ranks


def end_all(run, ranks):
    """Whatever happened, nothing of this run stays."""
    for pid in [run.pid, *ranks.values()]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    run.wait()


def check_state(folder, training):
    """A process of its own loads it."""
    state = str(folder / "state.safetensors")
    if training == by_steps:
        command = [STEPS, "check", state]
    else:
        command = [GRADUS, "train", TABLE, "--target", "kind", "--resume", state, "--time", "0.05", "--world", "self", "--threads", "1",
                   "--out", str(folder / "on.safetensors")]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise Failure(f"the checkpoint is not whole: {found.stdout}{found.stderr}")


def one_kill(folder, training, pause, victim):
    run, ranks = start(folder, training, 60)
    try:
        time.sleep(pause)
        os.kill(ranks[victim], signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: run.poll() is not None and not any(map(is_there, ranks.values())), LONGEST, "ending")
        took = time.monotonic() - killed
    finally:
        end_all(run, ranks)
    text = (folder / "out").read_text()
    if run.returncode == 0 or not re.search(rf"rank {victim}\b", text):
        raise Failure(f"nothing names rank {victim}:\n{text}")
    saving = bool(list(folder.glob(".gradus-*.tmp")))  # what a save has left behind; the next one takes it away
    check_state(folder, training)
    return saving, took


def nobody_kills(folder, sign, victim, *options):
    """The launcher does nothing: the time-out of two seconds says who is missing and ends the others."""
    run, ranks = start(folder, by_steps, 2, *options)
    try:
        os.kill(ranks[victim], sign)
        others = [pid for rank, pid in ranks.items() if rank != victim]
        wait_until(lambda: not any(map(is_there, others)), LONGEST, "ending without a launcher that kills")
    finally:
        end_all(run, ranks)
    text = (folder / "out").read_text()
    # Ranks that wait for the victim are not missing.  The launcher may wake the victim before it ends it: its sentence is about the others.
    sentences = re.findall(rf"gradus: \w+: rank (?!{victim}\b)\d+ waited 2 seconds for (.*)", text)
    if not sentences or set(sentences) != {f"rank {victim}"}:
        raise Failure(f"no time-out names rank {victim}:\n{text}")
    check_state(folder, by_steps)


def main():
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 5
    seed = int(sys.argv[6]) if len(sys.argv) > 6 else int(time.time())
    chance = random.Random(seed)
    longest, saving = 0, 0
    try:
        for i in range(count):
            with tempfile.TemporaryDirectory() as name:
                training = by_gradus if i % 2 else by_steps
                during, took = one_kill(Path(name), training, chance.uniform(0, 0.3), chance.randrange(RANKS))
                longest, saving = max(longest, took), saving + during
        for sign, options in ((signal.SIGSTOP, ()), (signal.SIGKILL, ("--enable-recovery",))):
            for victim in (0, 2) if sign == signal.SIGSTOP else (1,):
                with tempfile.TemporaryDirectory() as name:
                    nobody_kills(Path(name), sign, victim, *options)
    except Failure as failure:
        print(f"seed {seed}: {failure}")
        return 1
    print(f"{count} killed, {saving} while saving, the others gone after at most {longest:.2f} s; every checkpoint whole; "
          "time-outs name who is missing")
    return 0


MPIRUN, STEPS, GRADUS, TABLE = sys.argv[1:5]
sys.exit(main())
