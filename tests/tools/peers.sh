#!/usr/bin/env bash
# peers.sh ROOT BUILD: gradus's side of ./dev bench peers runs, and its table has the form that it should.
set -u
root=$1 build=$2
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
[[ -x $build/bench/peers/peer_gradus ]] || { echo "SKIPPED: gradus_peers is not built"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python3 "$root/bench/peers/run.py" --quick --only gradus --built "$build" --out "$out" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }

# one that is stopped leaves a table of what it did, and goes on from there
stopped=$out/stopped
mkdir "$stopped"
python3 "$root/bench/peers/run.py" --quick --only GRADUS --built "$build" --out "$stopped" >"$stopped/log" 2>"$stopped/err" &
run=$!
for _ in $(seq 300); do
    grep -q ' 5 of ' "$stopped/err" && break
    sleep 0.02
done
kill -TERM "$run"
wait "$run"
[[ $? -eq 130 ]] || { echo "a run that is stopped does not say so"; cat "$stopped/err"; exit 1; }
cp "$stopped/peers.json" "$stopped/before.json"
grep -q 'Stopped before its end' "$stopped/peers.md" || { echo "the page of a run that was stopped does not say so"; exit 1; }
python3 "$root/bench/peers/run.py" --resume --built "$build" --out "$stopped" >>"$stopped/log" 2>&1 || { cat "$stopped/log"; exit 1; }
python3 "$root/bench/peers/run.py" --resume --built "$build" --out "$stopped" >>"$stopped/log" 2>&1 && { echo "nothing was left to resume"; exit 1; }

python3 - "$root" "$out" <<'PYTHON'
import json
import re
import subprocess
import sys
import time
from pathlib import Path

root, out = map(Path, sys.argv[1:])
sys.path.insert(0, str(root / "bench" / "peers"))
import machine
import report
import run
import works
from reasons import REASONS
from works import WORKS

found = json.loads((out / "peers.json").read_text())
page = (out / "peers.md").read_text()
faults = []


def expect(holds, what):
    if not holds:
        faults.append(what)

# every work that a quick run has was done by gradus, in a time, and solved what it was given
for work in found["works"]:
    ours = report.ours_of(work)
    alone = work["name"] == "import"  # that one is of Python's
    if ours is None and work["name"].startswith("NIST"):  # whose files are not everywhere: that is said
        expect("| gradus |  |  |  | the problems are not there (NIST: GRADUS_NIST names the folder of the files) |" in page,
               f"NIST: {work['sides']}")
    elif not alone and not (ours and ours["seconds"] > 0 and ours["peak"] > 0):
        faults.append(f"{work['name']}: no figure: {work['sides']}")
    if ours and "each" in ours and not all(ours["each"]):
        faults.append(f"{work['name']}: not all solved: {ours['each']}")
    if f"### {work['name']}\n" not in page:
        faults.append(f"{work['name']} is not on the page")
missing = {w.name for w in WORKS if w.quick != "-"} - {w["name"] for w in found["works"]}
faults += [f"{name} was not run" for name in missing]

# rows of a table have as many cells as its head
for block in re.findall(r"(?:^\|.*\n)+", page, re.M):
    widths = {len(re.sub(r"\\\|", "", line).split("|")) for line in block.splitlines()}
    if len(widths) != 1:
        faults.append(f"a table with rows of different widths:\n{block}")


# a row that a peer wins needs a reason; one that is near is a draw; what is missing is said
def work_with(theirs, **more):
    ours = {"label": "gradus", "peer": "gradus", "seconds": 1.0, "least": 0.9, "most": 1.1, "peak": 1, "start": 1}
    side = {"label": "PyTorch", "peer": "PyTorch", "seconds": theirs, "least": theirs, "most": theirs, "peak": 1, "start": 1} | more
    return {"name": "no such work", "group": "step", "sides": [ours, side]}


for theirs, wanted, said in ((0.5, 1, "no reason written"), (0.97, 0, "A draw"), (2.0, 0, None)):
    told = []
    lines = report.reasons_of(work_with(theirs), told)
    if len(told) != wanted or (said and said not in " ".join(lines)) or (not said and lines):
        faults.append(f"a peer at {theirs}: {told} {lines}")
gone = report.work_page({"name": "x", "group": "step", "sides": [{"label": "Ceres", "peer": "Ceres", "missing": "not built"}]}, [])
if not any("Ceres" in line and "not built" in line for line in gone):
    faults.append(f"a missing peer is not said: {gone}")

# reasons are those of works and sides that there are
labels = {s.label for w in WORKS for s in w.sides} | {"*"}
for name, given in REASONS.items():
    if not any(name in (w.name, w.group) or (name[-1] == "*" and w.name.startswith(name[:-1])) for w in WORKS):
        faults.append(f"reasons.py: no work '{name}'")
    faults += [f"reasons.py: no side '{label}'" for label in given if label not in labels]

# what was done before the stop is there as it was, the rest once, all in order
before, after = (json.loads((out / "stopped" / name).read_text()) for name in ("before.json", "peers.json"))
names = [w["name"] for w in after["works"]]
expect(names == [w["name"] for w in found["works"]] and not after["left"], f"resumed: {names}, left {after['left']}")
expect(0 < len(before["works"]) < len(names) and before["left"] == names[len(before["works"]):], f"stopped: left {before['left']}")
expect(after["works"][:len(before["works"])] == before["works"], "what was done before a stop was done again")
expect("Stopped" not in (out / "stopped" / "peers.md").read_text(), "a resumed run is whole")


# names are known whatever their capitals; a mistake lists them
def refused(act, *words):
    try:
        act()
    except SystemExit as told:
        return all(w in str(told) for w in words)
    return False


side = next(s for w in WORKS for s in w.sides if s.label == "PyTorch fused")
for only, wanted in (("pytorch", True), ("PYTORCH FUSED", True), ("scipy", False), ("", True)):
    expect(run.chooser(only)(side) is wanted, f"--only '{only}': PyTorch fused is not {wanted}")
expect(refused(lambda: run.chooser("pytorhc"), "pytorhc", "PyTorch", "liblbfgs", "SciPy BFGS"), "an unknown peer does not list those that there are")
expect(refused(lambda: run.chosen_works("ADAMV", False), "adamv", "groups are", "Lion: 20M"), "an unknown work does not list those that there are")
expect(run.chosen_works("LION", False), "capitals of a work's name matter")

# who takes too long is stopped and says so, rounds that were measured before stay, and the next work finds him again
(out / "slow.py").write_text("""import sys, time
print('{"ready": "1"}', flush=True)
for line in sys.stdin:
    time.sleep(60 if 'never' in line or ('go 7' in line and sys.argv.append(0) is None and len(sys.argv) > 2) else 0)
    print('{"setup": 0.1, "seconds": 0.5, "runs": 1, "peak": 1}', flush=True)
""")
run.LIMIT = 1
run.PEERS["slow"] = works.Peer("slow", [sys.executable, str(out / "slow.py")])
pool = run.Pool({"threads": 1, "package": "", "gradus": "", "problems": "", "python": sys.executable})
for line, seconds, wanted in (("never", 0, "stopped after 1 s"), ("soon", 0, 3), ("soon", 7, 1)):
    told = run.measure(works.Work("x", "step", line, [works.Side("slow")], seconds=seconds, rounds=3), pool, lambda s: True, False, 9)["sides"][0]
    expect(wanted in (told.get("missing"), told.get("rounds")), f"{line}, {seconds} s: {told}")
pool.end()
expect("| slow |  |  |  | stopped after 60 s |" in report.work_page({"name": "x", "group": "step", "sides": [
    {"label": "slow", "peer": "slow", "missing": "stopped after 60 s"}]}, []), "a row that was stopped")

# the page says what the machine was, what anybody may take and whether it was alone
for text in (found["machine"]["processor"], found["machine"]["compiler"], found["date"], "has 60 s", "1 s of the processor, one of more than 1000 numbers 10 s", "Load average"):
    expect(text in page, f"the page does not say '{text}'")
loads = [{"start": 0.1, "end": 2.0, "most": 2.1}]
for others, busy in ((0.1, False), (1.3, True)):
    told = " ".join(report.load_text({"loads": loads, "machine": found["machine"], "works": [{"name": "x", "others": others}, {"name": "y", "others": 0.2}]}))
    expect(("**Other work ran" in told) is busy and ("during 1 of 2 works" in told) is busy, f"others kept {others} processors busy: {told}")
with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as stranger:
    watch = machine.Watch(lambda: [])
    watch.begin()
    time.sleep(1.2)
    alien = watch.others()
    stranger.kill()
with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as mine:
    watch = machine.Watch(lambda: [mine.pid])
    watch.begin()
    time.sleep(1.2)
    own = machine.seconds_of(mine.pid)
    mine.kill()
expect(alien is None or alien > 0.05, f"a stranger's loop is {alien} of a processor")
expect(own > 0.05, f"a peer's own loop took {own} s")

for fault in faults:
    print(fault)
print(f"{len(found['works'])} works")
sys.exit(bool(faults))
PYTHON
