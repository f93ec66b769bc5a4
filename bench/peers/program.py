"""Programs as a shell starts them: the time from start to end and the memory of a command, and a classifier trained by gradus."""
import json
import os
import resource
import shlex
import subprocess
import tempfile
import urllib.parse

from peer import THREADS, Missing, main

GRADUS = os.environ.get("GRADUS", "gradus")


def ended(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise Missing((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:150])
    return done.stdout


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def command(line):
    """line: a command, quoted as in addresses."""
    words = shlex.split(urllib.parse.unquote(line))

    def run():
        ended(words)
        return {"peak": peak()}

    return run


def train(train, test, target="y"):
    folder = tempfile.mkdtemp(prefix="gradus-peers-")
    model = os.path.join(folder, "m.safetensors")

    def run():
        ended([GRADUS, "train", train, "--target", target, "--threads", str(THREADS), "--json", "--out", model])
        return {"peak": peak()}

    run()
    told = json.loads(ended([GRADUS, "predict", model, test, "--score", "--json"]))
    score = told.get("accuracy", told.get("r2"))
    return lambda: run() | {"score": score}


main("", {"command": command, "train": train})
