#!/usr/bin/env bash
# peers.sh ROOT BUILD: gradus's side of ./dev bench peers runs, and its table has the form that it should.
set -u
root=$1 build=$2
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
[[ -x $build/bench/peers/peer_gradus ]] || { echo "SKIPPED: gradus_peers is not built"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python3 "$root/bench/peers/run.py" --quick --only gradus --built "$build" --out "$out" >"$out/log" || { cat "$out/log"; exit 1; }
python3 - "$root" "$out" <<'PYTHON'
import json
import re
import sys
from pathlib import Path

root, out = map(Path, sys.argv[1:])
sys.path.insert(0, str(root / "bench" / "peers"))
import report
from reasons import REASONS
from works import WORKS

found = json.loads((out / "peers.json").read_text())
page = (out / "peers.md").read_text()
faults = []

# every work that a quick run has was done by gradus, in a time, and solved what it was given
for work in found["works"]:
    ours = report.ours_of(work)
    alone = work["name"] == "import"  # that one is of Python's
    if not alone and not (ours and ours["seconds"] > 0 and ours["peak"] > 0):
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

for fault in faults:
    print(fault)
print(f"{len(found['works'])} works")
sys.exit(bool(faults))
PYTHON
