"""The protocol of peer.h for Python: a table of kinds, each a function that takes the values of its line and returns a function to
run; what a run returns, if anything, is a dict that is reported with the time.  Missing: the work cannot be done, and why."""
import contextlib
import ctypes
import gc
import json
import os
import sys
import time

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))


class Missing(Exception):
    pass


def tell(**what):
    print(json.dumps(what), flush=True)


def forget_peak():
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as f:
        f.write("5")


def peak():
    with open("/proc/self/status") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def give_back():
    """What the last work had is not the next one's."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def begin(kinds, words):
    begun = time.perf_counter()
    forget_peak()
    if words[0] not in kinds:
        raise Missing("it does no such work")
    values = dict(word.split("=", 1) for word in words[1:])
    warm = values.pop("warm", "1") != "0"
    run = kinds[words[0]](**values)
    found = run() or {} if warm else {}
    found.pop("seconds", None)
    tell(setup=time.perf_counter() - begun, **found)
    return run


def go(run, seconds):
    runs, batch, took, begun = 0, 1, 0.0, time.perf_counter()
    while True:
        for _ in range(batch):
            found = run()
        runs += batch
        took = time.perf_counter() - begun
        if took >= seconds:
            break
        if took < seconds / 16:
            batch *= 2
    tell(**{"seconds": took / runs, "runs": runs, **(found or {})})


def main(version, kinds):
    tell(ready=version)
    run = None
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "open":
                run = begin(kinds, words[1:])
            elif words[0] == "go":
                go(run, float(words[1]))
            else:
                run = None
                tell(peak=peak())
                give_back()
        except Missing as why:
            tell(missing=str(why))
        except Exception as why:  # what a peer cannot do is a line of the table, not the end of the run
            tell(missing=f"{type(why).__name__}: {why}".splitlines()[0][:150])
