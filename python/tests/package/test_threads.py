"""Threads with tensors, optimizers and modules of their own, in one context or one each, switched as often as can be.

Each case is a process of its own: threads that wait for each other for ever end it with their traces."""
import os
import subprocess
import sys

import pytest

import gradus as gd

BEGIN = """
import faulthandler, sys, threading, traceback
faulthandler.dump_traceback_later(60, exit=True)
import gradus as gd
sys.setswitchinterval(1e-5)
failed = []

def together(count, work, *args):
    def guarded(number):
        try:
            work(number, *args)
        except BaseException:
            failed.append(traceback.format_exc())
    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed[0]
"""

WORK = """
class Net(gd.Module):
    def __init__(self, start):
        super().__init__()
        self.weight = gd.tensor(start, requires_grad=True)
        gd.VirtualTensor.create(self, "double", lambda net, dtype, device: net.weight * 2, dtype="f64")

def steps(number, seen):
    w = gd.tensor([number + 1.0, 2.0], requires_grad=True)
    optimizer = gd.Optimizer([w], "adam | lr(0.1)")     # a new one each time
    losses = [optimizer.step(lambda: (w * w).sum()) for _ in range(3)]
    seen.append((losses, w.tolist()))

def modules(number, seen):
    net = Net([number + 1.0, 2.0])
    optimizer = gd.Optimizer(net, "lbfgs | backtracking")
    losses = [optimizer.step(lambda: net.double.square().sum()) for _ in range(2)]
    seen.append((losses, net.weight.tolist(), net.export("weight").tolist()))

def modes(number, seen):
    w = gd.tensor([number + 1.0, 2.0], requires_grad=True)
    for _ in range(5):
        with gd.no_grad():
            frozen = w * 2
            with gd.enable_grad():
                recorded = w * 2
            still = w * 2
        seen.append((frozen.requires_grad, recorded.requires_grad, still.requires_grad, (w * 2).requires_grad))

def solves(number, seen):
    r = gd.minimize(lambda x: (x - number).square().sum(), [3.0, 4.0])
    h = gd.hessian(lambda x: (x * x * x).sum(), gd.tensor([number + 1.0]))
    seen.append((r.x.tolist(), r.nfev, h.tolist()))

def large(number, seen):
    x = gd.full((200, 200), number + 1.0)
    seen.append(((x @ x)[0, 0].item(), gd.tensor([float(number)] * 50).sum().item()))

def failures(number, seen):
    w = gd.tensor([1.0], requires_grad=True)
    def fails():
        raise KeyError(number)
    try:
        gd.Optimizer([w], "lr(0.1)").step(fails)
    except KeyError as e:
        seen.append(e.args)
    try:
        gd.ones(2) @ gd.ones(3)
    except gd.ShapeError as e:
        seen.append(str(e))

def all_kinds(number, own, rounds, results):
    if own:
        gd.Context(threads=1).use()
    for _ in range(rounds):
        for kind in (steps, modules, modes, solves, large, failures):
            seen = []
            kind(number, seen)
            results[number].append(repr(seen))
"""


def run(script, seconds=100):
    done = subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=seconds, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr


SECONDS = float(os.environ.get("GD_THREADS_SECONDS", "0"))  # rounds until then: GD_THREADS_SECONDS=60 ./dev python threads_wait


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("count", [2, 4])
def test_threads_wait_for_each_other_and_compute_what_one_does(count, own):
    run(f"""{WORK}
import time
alone = {{k: [] for k in range({count})}}
for k in range({count}):
    all_kinds(k, False, 1, alone)
until, rounds = time.monotonic() + {SECONDS}, 0
while not rounds or time.monotonic() < until:
    faulthandler.dump_traceback_later(60, exit=True)  # a hang
    results = {{k: [] for k in range({count})}}
    together({count}, all_kinds, {own}, 30, results)
    for k in range({count}):
        assert results[k] == alone[k] * 30, (k, results[k], alone[k])
    rounds += 1
print(rounds, "rounds")
""", 100 + SECONDS)


def test_tensors_of_a_running_function_may_be_dropped_by_another_thread():
    run("""
held, stop = [], []
def drop():
    while not stop:
        held.clear()
def steps(number):
    w = gd.ones(3).require_grad()
    optimizer = gd.Optimizer([w], "lr(0.1)")
    def closure():
        for _ in range(20):
            held.append(w * 2)
        return (w * w).sum()
    for _ in range(200):
        optimizer.step(closure)
dropper = threading.Thread(target=drop)
dropper.start()
together(1, steps)
stop.append(True)
dropper.join()
""")


def test_a_context_is_closed_when_those_who_wait_have_had_their_turn():
    run("""
def use(number, context, w, started):
    try:
        for _ in range(100000):
            optimizer = gd.Optimizer([w], "lr(0.1)")
            optimizer.step(lambda: (w * w).sum())
            started.append(True)
    except gd.StateError as e:
        assert "closed" in str(e), e
for _ in range(10):
    context = gd.Context(threads=1)
    context.use()
    w, started = gd.ones(3).require_grad(), []
    users = [threading.Thread(target=use, args=(k, context, w, started)) for k in range(3)]
    for t in users:
        t.start()
    while len(started) < 5:
        pass
    context.close()
    for t in users:
        t.join()
""")


def test_a_thread_chooses_a_context_for_itself():
    run("""
main = gd.ones(1).context
def choose(number, contexts):
    mine = gd.Context(threads=1)
    assert gd.ones(1).context is main
    mine.use()
    for _ in range(100):
        assert gd.ones(1).context is mine
    contexts.append(mine)
contexts = []
together(3, choose, contexts)
assert gd.ones(1).context is main and len(set(map(id, contexts))) == 3
def closed(number):
    mine = gd.Context(threads=1)
    mine.use()
    mine.close()
    assert gd.ones(1).context is main
together(1, closed)
""")
    assert gd.grad_enabled()
