#!/usr/bin/env python3
"""run.py: gradus and its peers on the same work, in one go: ./dev bench peers.

  --prepare          install what is missing into build/venv-peers, and end
  --quick            small sizes, one round: does all of it run?
  --only NAME,...    those peers or rows of a table (gradus and the floor are always there)
  --work TEXT,...    works whose name has that text, or of that group
  --rounds N         at most so many (a look at a busy machine)
  --minutes N        begin no work after that time (40); what is left out is said
  --resume           go on where a run was stopped, with what it was given
  --out FOLDER       where peers.md, peers.json and peers-*.svg go (docs; build/peers where only a part is run)
  --built FOLDER     the build (build/release)
  --write            no measurements: the pages again, from peers.json

Sides of a work are open at once and measured in turn, round after round; the figures are medians.  Two threads each (--threads N),
on the same processors.  What is missing is said in the table; so is what took more than LIMIT seconds of a work, which is stopped.
peers.json is written after every work.  Ctrl-C ends the run with a page of what was done.  Exit 1 when a row that another peer wins
has no reason in reasons.py.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import report
from machine import Watch, machine
from works import ENOUGH, LIMIT, PEERS, WORKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = ROOT / "build" / "venv-peers"
PATIENCE = 150  # seconds for an interpreter to start with its imports


class Missing(Exception):
    pass


class Late(Missing):
    pass


# ---- what is installed ----

def prepare():
    """The registry's packages, each by itself: one that fails keeps no other away."""
    failed = {}
    packages = dict.fromkeys((p.package, p.imported) for p in PEERS.values() if p.imported)
    if not (VENV / "bin" / "python").exists():
        made = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True, text=True, check=False)
        if made.returncode:
            print(f"no environment: {made.stderr or made.stdout}", file=sys.stderr)
            return
    for package, imported in packages:
        there = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({imported!r}))"
        if subprocess.run([VENV / "bin" / "python", "-c", there], check=False).returncode == 0:
            continue
        print(f"installing {package}", file=sys.stderr, flush=True)
        command = [VENV / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile", "--no-cache-dir", package]
        command += {"optax": ["jax"]}.get(package, [])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            failed[package] = (done.stderr.strip().splitlines() or ["pip failed"])[-1][:150]
            print(f"  {failed[package]}", file=sys.stderr, flush=True)
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
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment(places),
                                        preexec_fn=leave_to_us)
        try:
            self.version = self.answer(PATIENCE)["ready"]
        except (Missing, KeyError):
            self.end()
            last = self.said()
            raise Missing(why_not_installed(peer) if "No module named" in last or not last else last) from None
        self.started = time.perf_counter() - begun

    def said(self):
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return lines[-1][:150] if lines else ""

    def answer(self, patience):
        """The next object; other lines are the peer's own talk."""
        end = time.perf_counter() + patience
        while True:
            if not select.select([self.process.stdout], [], [], max(0, end - time.perf_counter()))[0]:
                self.process.kill()
                self.process.wait()
                raise Late(f"no answer after {patience:.0f} s")
            line = self.process.stdout.readline()
            if not line:
                raise Missing(self.said() or f"ended with status {self.process.wait()}")
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found

    def ask(self, line, patience=LIMIT):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Missing(self.said() or "it has ended") from None
        found = self.answer(patience)
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


def leave_to_us():
    """Ctrl-C is the run's to answer, not the peers'."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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

    def __init__(self, side, line):
        self.side, self.line, self.running, self.rounds, self.found, self.over = side, line, None, [], {}, False
        self.spent = self.used = 0.0  # seconds that count to ENOUGH, and all of them

    def fail(self, why):
        self.found["missing"] = str(why) or type(why).__name__

    def ask(self, what):
        """The answer, and how long it took; one that comes too late ends the side."""
        begun = time.perf_counter()
        try:
            return self.running.ask(what, LIMIT - self.used), time.perf_counter() - begun
        finally:
            self.used += time.perf_counter() - begun

    def open(self, pool):
        self.running = pool.running(self.side.peer)
        told, took = self.ask(f"open {self.line}")
        self.found.setdefault("start", self.running.started + told["setup"])
        self.keep(told)
        return took

    def reopen(self, pool):
        self.spent += self.open(pool)

    def keep(self, told):
        self.found.update({k: v for k, v in told.items() if k not in ("setup", "seconds", "runs", "peak")})
        if "peak" in told:
            self.found["peak"] = max(told["peak"], self.found.get("peak", 0))

    def go(self, seconds):
        told, took = self.ask(f"go {seconds:g}")
        if not self.rounds and "fit" in self.line and "warm=0" in self.line:  # its first result
            self.found["start"] += took
        self.rounds.append(told["seconds"])
        self.keep(told)
        self.spent += took

    def close(self):
        told = self.running.ask("close")
        if "peak" not in self.found:
            self.keep(told)

    def tried(self, act, *arguments):
        """Whether it worked; what does not ends this side, not the run."""
        if "missing" in self.found or self.over:
            return False
        try:
            act(*arguments)
        except Late:
            self.over = True  # rounds that were measured stay
            if not self.rounds:
                self.fail(f"stopped after {LIMIT} s")
        except Missing as why:
            self.fail(why)
        return "missing" not in self.found and not self.over

    def enough(self):
        return bool(self.rounds) and self.spent > ENOUGH

    def result(self):
        out = {"label": self.side.label, "peer": self.side.peer, "used": round(self.used, 2), **self.found}
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

    def ids(self):
        return [p.process.pid for p in self.processes.values() if p.alive()]

    def end(self):
        for process in self.processes.values():
            process.end()
        self.processes.clear()


def line_of(work, side, places, quick):
    more = side.more.format(**places) if "{" in side.more else side.more
    if more.startswith("line="):
        more = "line=" + urllib.parse.quote(more.removeprefix("line="))
    return f"{(work.quick or work.line if quick else work.line).format(**places)} {more}".strip()


def measure(work, pool, chosen, quick, rounds):
    """All sides in turn, round after round; those that are large are opened and closed for each.  Two sides of one process are, too."""
    sides = [Measured(s, line_of(work, s, pool.places, quick)) for s in work.sides if chosen(s)]
    peers = [m.side.peer for m in sides]
    alone = {m for m in sides if work.apart or peers.count(m.side.peer) > 1}
    for m in sides:
        if m not in alone:
            m.tried(m.open, pool)
    for _ in range(1 if quick else min(rounds, work.rounds)):
        for m in sides:
            if m.enough() or (m in alone and not m.tried(m.reopen, pool)):
                continue
            m.tried(m.go, 0 if quick else work.seconds)
            if m in alone:
                m.tried(m.close)
    for m in sides:
        if m not in alone:
            m.tried(m.close)
    return {**report.named(work), "sides": [m.result() for m in sides]}


# ---- the processors and the data ----

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


# ---- what was found so far ----

class Journal:
    """peers.json: after every work the whole file is there, of what was done until then."""

    def __init__(self, path, found):
        self.path, self.found = path, found
        self.before, self.begun = found["seconds"], time.time()

    def add(self, work):
        self.found["works"] = [w for w in self.found["works"] if w["name"] != work["name"]] + [work]

    def write(self, pool, watch, left):
        found = self.found
        found["seconds"] = round(self.before + time.time() - self.begun)
        found["versions"] |= pool.versions
        found["missing"] = {k: v for k, v in found["missing"].items() if k not in pool.versions} | pool.missing
        found["loads"][-1] = watch.load()
        found["left"] = [w.name for w in left]
        order = {w.name: k for k, w in enumerate(WORKS)}
        found["works"].sort(key=lambda w: order.get(w["name"], len(order)))
        new = self.path.with_suffix(".json.new")
        new.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        os.replace(new, self.path)


GIVEN = ("quick", "only", "work", "rounds", "threads")  # what a run that goes on takes from the one that was stopped


def begun(options):
    return {"date": datetime.date.today().isoformat(), "machine": machine(options.threads, options.built.resolve(), ROOT), "quick": options.quick,
            "given": {k: getattr(options, k) for k in GIVEN}, "limit": LIMIT, "enough": ENOUGH, "seconds": 0, "loads": [], "versions": {},
            "missing": {}, "left": [], "works": []}


def resumed(options, kept):
    """What the file has, where it is of this machine and build; the options are those of the run that was stopped."""
    try:
        found = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        sys.exit(f"--resume: there is no run in {kept}")
    if "given" not in found or not found["left"]:
        sys.exit(f"--resume: the run in {kept} was not stopped: nothing is left of it")
    for name, value in found["given"].items():
        setattr(options, name, value)
    now = begun(options)
    for what, value in now["machine"].items():
        if what != "commit" and found["machine"].get(what) != value:
            sys.exit(f"--resume: another {what}: {found['machine'].get(what)}, now {value}")
    if found["date"] != now["date"]:
        found["until"] = now["date"]
    found["machine"]["commit"] = now["machine"]["commit"]
    return found


# ---- all of it ----

def arguments():
    parser = argparse.ArgumentParser(description="gradus and its peers on the same work", usage=__doc__)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--work", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--built", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=99)
    parser.add_argument("--minutes", type=float, default=40)
    options = parser.parse_args()
    part = any(getattr(options, name) != parser.get_default(name) for name in GIVEN)
    if options.resume and part:
        parser.exit(2, f"--resume takes {', '.join('--' + name for name in GIVEN)} from the run that was stopped\n")
    options.out = options.out or ROOT / ("build/peers" if part else "docs")
    return options


def chooser(only):
    """Which sides are run: all, or those of the peers and rows named beside gradus and the floor.  Capitals do not matter."""
    names = {n.strip().lower() for n in only.split(",") if n.strip()}
    known = dict.fromkeys([*PEERS, *(s.label for w in WORKS for s in w.sides)])
    unknown = names - {k.lower() for k in known}
    if unknown:
        sys.exit(f"no peer '{min(unknown)}': they are {', '.join(known)}")
    names |= {"gradus", "floor"} if names else set()
    return lambda s: not names or s.label.lower() in names or (s.peer.lower() in names and s.peer != "gradus program")


def chosen_works(given, quick):
    texts = [t.strip().lower() for t in given.split(",") if t.strip()]
    for text in texts:
        if not any(text in w.name.lower() or text == w.group for w in WORKS):
            sys.exit(f"no work has '{text}' in its name: groups are {', '.join(report.GROUPS)}; works are\n  " + "\n  ".join(w.name for w in WORKS))
    works = [w for w in WORKS if not texts or any(t in w.name.lower() or t == w.group for t in texts)]
    return [w for w in works if not (quick and w.quick == "-")]


def places_of(options, folder):
    built = options.built.resolve()
    python = VENV / "bin" / "python" if (VENV / "bin" / "python").exists() else Path(sys.executable)
    return {"python": python, "peers": HERE, "built": built / "bench" / "peers", "gradus": built / "gradus", "package": built / "python",
            "problems": built / "bench" / "peers" / "libpeer_problems.so", "data": folder, "examples": ROOT / "examples" / "data",
            "threads": options.threads}


def run_works(options, works, journal, pool, watch):
    """The works that are not done, one after the other; those that are left when it is stopped."""
    done = {w["name"] for w in journal.found["works"]} - set(journal.found["left"])
    left = [w for w in works if w.name not in done]
    chosen = chooser(options.only)
    journal.write(pool, watch, left)
    while left:
        work, took = left[0], time.time() - journal.begun
        if took > options.minutes * 60:
            break
        print(f"{took:5.0f} s  {len(works) - len(left) + 1:2d} of {len(works)}  {report.GROUPS[work.group]}: {work.name}", file=sys.stderr, flush=True)
        watch.begin()
        measured = measure(work, pool, chosen, options.quick, options.rounds)
        journal.add(measured | {"others": watch.others()})
        journal.write(pool, watch, left := left[1:])
    return left


def run_all(options, journal):
    """Whether it came to its end."""
    works = chosen_works(options.work, options.quick)
    chooser(options.only)  # its mistakes before anything is started
    with tempfile.TemporaryDirectory(prefix="gradus-peers-") as folder:
        write_table(Path(folder), 400 if options.quick else 4000)
        pool = Pool(places_of(options, folder))
        watch = Watch(pool.ids)
        journal.found["loads"].append(watch.load())
        try:
            left = run_works(options, works, journal, pool, watch)
        except KeyboardInterrupt:
            left = True
            print("\nstopped", file=sys.stderr)
        finally:
            pool.end()
    return not left


def stop(*_):
    raise KeyboardInterrupt


def main():
    options = arguments()
    if options.prepare:
        prepare()
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    kept, whole = options.out / "peers.json", True
    if options.write:
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        same_processors(options.threads)
        signal.signal(signal.SIGTERM, stop)
        found = resumed(options, kept) if options.resume else begun(options)
        whole = run_all(options, Journal(kept, found))
    status = report.write(found, options.out, options.built.resolve() / "gradus")
    if not whole:
        where = "" if options.out == ROOT / "docs" else f" --out {options.out}"
        print(f"{len(found['left'])} works are left: ./dev bench peers --resume{where}", file=sys.stderr)
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
