#!/usr/bin/env python3
"""run.py: gradus and its peers on the same work, in one go: ./dev bench peers.

  --prepare          install what is missing into build/venv-peers, and end
  --quick            small sizes, one round: does all of it run?
  --only PEER,...    those peers (gradus and the floor are always there)
  --work TEXT,...    works whose name has that text, or of that group
  --rounds N         at most so many (a look at a busy machine)
  --minutes N        begin no work after that time (40); what is left out is said
  --out FOLDER       where peers.md, peers.json and peers-*.svg go (docs)
  --built FOLDER     the build (build/release)
  --write            no measurements: the pages again, from peers.json

Sides of a work are open at once and measured in turn, round after round; the figures are medians.  Two threads each (--threads N),
on the same processors.  What is missing is said in the table.  Exit 1 when a row that another peer wins has no reason in reasons.py.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import report
from works import PEERS, WORKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = ROOT / "build" / "venv-peers"
PATIENCE = 150  # seconds for one answer
ENOUGH = 12  # seconds that the rounds of one side may take together, the first apart


class Missing(Exception):
    pass


# ---- what is installed ----

def prepare():
    """The registry's packages, each by itself: one that fails keeps no other away."""
    if not (VENV / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    failed = {}
    packages = dict.fromkeys((p.package, p.imported) for p in PEERS.values() if p.imported)
    for package, imported in packages:
        there = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({imported!r}))"
        if subprocess.run([VENV / "bin" / "python", "-c", there], check=False).returncode == 0:
            continue
        print(f"installing {package}", flush=True)
        command = [VENV / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile", "--no-cache-dir", package]
        command += {"optax": ["jax"]}.get(package, [])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            failed[package] = (done.stderr.strip().splitlines() or ["pip failed"])[-1][:150]
            print(f"  {failed[package]}", flush=True)
    (VENV / "failed.json").write_text(json.dumps(failed), encoding="utf-8")


def why_not_installed(peer):
    if not peer.imported:
        return f"not built: Debian's {peer.package} is not there" if peer.package else "not built"
    with contextlib.suppress(OSError, ValueError):
        why = json.loads((VENV / "failed.json").read_text(encoding="utf-8")).get(peer.package)
        if why:
            return f"not installed: {why}"
    return f"not installed: {peer.package} of the registry"


# ---- a peer that runs ----

class Running:
    """A process of a peer: lines to it, JSON objects from it."""

    def __init__(self, peer, places):
        command = [word.format(**places) for word in peer.command]
        if not Path(command[0]).exists():
            raise Missing(why_not_installed(peer))
        begun = time.perf_counter()
        self.errors = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment(places))
        try:
            self.version = self.answer()["ready"]
        except (Missing, KeyError):
            self.end()
            last = self.said()
            raise Missing(why_not_installed(peer) if "No module named" in last or not last else last) from None
        self.started = time.perf_counter() - begun

    def said(self):
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return lines[-1][:150] if lines else ""

    def answer(self, patience=PATIENCE):
        """The next object; other lines are the peer's own talk."""
        end = time.perf_counter() + patience
        while True:
            if not select.select([self.process.stdout], [], [], max(0, end - time.perf_counter()))[0]:
                self.end()
                raise Missing(f"no answer after {patience:.0f} s")
            line = self.process.stdout.readline()
            if not line:
                raise Missing(self.said() or f"ended with status {self.process.wait()}")
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found

    def ask(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Missing(self.said() or "it has ended") from None
        found = self.answer()
        if "missing" in found:
            raise Missing(found["missing"])
        return found

    def alive(self):
        return self.process.poll() is None

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment(places):
    threads = str(places["threads"])
    env = dict(os.environ, OMP_WAIT_POLICY="passive", PYTHONPATH=str(places["package"]), GRADUS=str(places["gradus"]),
               GRADUS_PROBLEMS=str(places["problems"]), PYTHONWARNINGS="ignore")
    for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GRADUS_THREADS":
        env[name] = threads
    nist = ROOT.parent / "shared" / "nist"
    if "GRADUS_NIST" not in env and nist.is_dir():
        env["GRADUS_NIST"] = str(nist)
    return env


# ---- one piece of work ----

class Measured:
    """A side of a work and what was found of it."""

    def __init__(self, side):
        self.side, self.running, self.rounds, self.found, self.took = side, None, [], {}, 0.0

    def fail(self, why):
        self.found["missing"] = str(why) or type(why).__name__

    def open(self, pool, line):
        self.running = pool.running(self.side.peer)
        told = self.running.ask(f"open {line}")
        self.found.setdefault("start", self.running.started + told["setup"])
        self.keep(told)

    def keep(self, told):
        self.found.update({k: v for k, v in told.items() if k not in ("setup", "seconds", "runs", "peak")})
        if "peak" in told:
            self.found["peak"] = max(told["peak"], self.found.get("peak", 0))

    def go(self, seconds):
        begun = time.perf_counter()
        told = self.running.ask(f"go {seconds:g}")
        self.rounds.append(told["seconds"])
        self.keep(told)
        self.took += time.perf_counter() - begun

    def close(self):
        told = self.running.ask("close")
        if "peak" not in self.found:
            self.keep(told)

    def tried(self, act, *arguments):
        """Whether it worked; what does not ends this side, not the run."""
        if "missing" in self.found:
            return False
        try:
            act(*arguments)
        except Missing as why:
            self.fail(why)
        return "missing" not in self.found

    def result(self):
        out = {"label": self.side.label, "peer": self.side.peer, **self.found}
        if self.rounds:
            out |= {"seconds": statistics.median(self.rounds), "least": min(self.rounds), "most": max(self.rounds), "rounds": len(self.rounds)}
        return out


class Pool:
    """Processes by the names of their peers; one serves all works: imports take longer than most of them."""

    def __init__(self, places):
        self.places, self.processes, self.versions, self.missing = places, {}, {}, {}

    def running(self, name):
        if name in self.missing:
            raise Missing(self.missing[name])
        process = self.processes.get(name)
        if not process or not process.alive():
            try:
                process = self.processes[name] = Running(PEERS[name], self.places)
            except Missing as why:
                self.missing[name] = str(why)
                raise
            self.versions[name] = process.version
        return process

    def end(self):
        for process in self.processes.values():
            process.end()
        self.processes.clear()


def line_of(work, side, places, quick):
    more = side.more.format(**places) if "{" in side.more else side.more
    if more.startswith("line="):
        more = "line=" + urllib.parse.quote(more.removeprefix("line="))
    return f"{(work.quick or work.line if quick else work.line).format(**places)} {more}".strip()


def one_round(work, sides, pool, quick):
    """Each side in its turn; those that are large are opened and closed for it.  Two sides of one process are, too."""
    shared = {m.side.peer for m in sides if sum(o.side.peer == m.side.peer for o in sides) > 1}
    for m in sides:
        alone = work.apart or m.side.peer in shared
        if m.rounds and m.took > ENOUGH:
            continue
        if alone and not m.tried(m.open, pool, line_of(work, m.side, pool.places, quick)):
            continue
        m.tried(m.go, 0 if quick else work.seconds)
        if alone:
            m.tried(m.close)


def measure(work, pool, chosen, quick, rounds):
    sides = [Measured(s) for s in work.sides if chosen(s)]
    shared = {m.side.peer for m in sides if sum(o.side.peer == m.side.peer for o in sides) > 1}
    together = [m for m in sides if not work.apart and m.side.peer not in shared]
    for m in together:
        m.tried(m.open, pool, line_of(work, m.side, pool.places, quick))
    for _ in range(1 if quick else min(rounds, work.rounds)):
        one_round(work, sides, pool, quick)
    for m in together:
        m.tried(m.close)
    return {"name": work.name, "group": work.group, "note": work.note, "curve": list(work.curve), "sides": [m.result() for m in sides]}


# ---- the machine and its data ----

def processor():
    with contextlib.suppress(OSError, StopIteration):
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    return platform.processor() or platform.machine()


def machine(threads):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": processor(), "processors": os.cpu_count(), "memory": f"{memory:.0f} GiB", "system": f"Linux {platform.release().split('-')[0]}",
            "threads": threads, "load": os.getloadavg()[0]}


def same_processors(threads):
    """All processes of the run have as many processors as threads."""
    there = sorted(os.sched_getaffinity(0))
    if len(there) > threads:
        os.sched_setaffinity(0, set(there[:threads]))


def write_table(folder, rows):
    """Three classes by curved borders with noise, a quarter of the rows kept apart."""
    draw = random.Random(5)
    for name, count in (("train.csv", rows * 3 // 4), ("test.csv", rows // 4)):
        with open(folder / name, "w", encoding="utf-8") as f:
            f.write(",".join(f"x{k}" for k in range(12)) + ",y\n")
            for _ in range(count):
                x = [draw.gauss(0, 1) for _ in range(12)]
                score = [math.sin(2 * x[0]) + x[1] * x[2], x[3] ** 2 - 1 + x[4], x[5] - x[0] * x[6]]
                score = [s + draw.gauss(0, 0.3) for s in score]
                f.write(",".join(f"{v:.9g}" for v in x) + f",c{score.index(max(score))}\n")


# ---- all of it ----

def arguments():
    parser = argparse.ArgumentParser(description="gradus and its peers on the same work", usage=__doc__)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--work", default="")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--built", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=99)
    parser.add_argument("--minutes", type=float, default=40)
    return parser.parse_args()


def chooser(only):
    """Which sides are run: all, or those of the peers named beside gradus and the floor."""
    names = [n for n in only.split(",") if n]
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        sys.exit(f"no peer '{unknown[0]}': they are {', '.join(PEERS)}")
    return lambda side: not names or side.peer == "floor" or (side.label if side.peer == "gradus program" else side.peer) in [*names, "gradus"]


def chosen_works(given, quick):
    texts = [t for t in given.split(",") if t]
    works = [w for w in WORKS if not texts or any(t in w.name or t == w.group for t in texts)]
    if not works:
        sys.exit(f"no work has '{given}' in its name: groups are {', '.join(report.GROUPS)}")
    return [w for w in works if not (quick and w.quick == "-")]


def run_all(options):
    begun, results = time.time(), []
    built = options.built.resolve()
    python = VENV / "bin" / "python" if (VENV / "bin" / "python").exists() else Path(sys.executable)
    with tempfile.TemporaryDirectory(prefix="gradus-peers-") as folder:
        write_table(Path(folder), 400 if options.quick else 4000)
        places = {"python": python, "peers": HERE, "built": built / "bench" / "peers", "gradus": built / "gradus", "package": built / "python",
                  "problems": built / "bench" / "peers" / "libpeer_problems.so", "data": folder, "examples": ROOT / "examples" / "data",
                  "threads": options.threads}
        pool = Pool(places)
        for work in chosen_works(options.work, options.quick):
            if time.time() - begun > options.minutes * 60:
                results.append(report.left_out(work))
                continue
            print(f"{time.time() - begun:5.0f} s  {report.GROUPS[work.group]}: {work.name}", flush=True)
            results.append(measure(work, pool, chooser(options.only), options.quick, options.rounds))
        pool.end()
    return {"date": datetime.date.today().isoformat(), "machine": machine(options.threads), "quick": options.quick,
            "seconds": round(time.time() - begun), "versions": pool.versions, "missing": pool.missing, "works": results}


def main():
    options = arguments()
    if options.prepare:
        prepare()
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "peers.json"
    if options.write:
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        same_processors(options.threads)
        found = run_all(options)
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return report.write(found, options.out, options.built.resolve() / "gradus")


if __name__ == "__main__":
    sys.exit(main())
