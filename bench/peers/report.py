"""peers.md and peers-*.svg from what run.py found."""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import BUSY
from reasons import REASONS
from works import ABOUT, GROUPS, SOLVING

DRAW = 0.05  # medians nearer than this, with rounds that overlap, are a draw


# ---- figures ----

def is_solved(work):
    return any("solved" in s for s in work["sides"])


def ours_of(work):
    """gradus as the work has it: the library, or the program, or the package."""
    named = [s for s in work["sides"] if s["label"] in ("gradus", "gradus (Python)")]
    return named[0] if named and "seconds" in named[0] else None


def is_gradus(side):
    return side["label"].startswith("gradus")


def floor_of(work):
    found = [s for s in work["sides"] if s["label"] == "floor" and "seconds" in s]
    return found[0]["seconds"] if found else None


def mean_ratio(ours, theirs, key):
    """Geometric mean of theirs by ours over the problems that both solve."""
    both = [b / a for a, b in zip(ours.get(key, []), theirs.get(key, [])) if a and b]
    return math.exp(sum(map(math.log, both)) / len(both)) if both else None


def ratio_of(work, side):
    """Their time by that of gradus: above 1 gradus is faster."""
    ours = ours_of(work)
    if not ours or "seconds" not in side:
        return None
    return mean_ratio(ours, side, "times") if is_solved(work) else side["seconds"] / ours["seconds"]


def wins(work, side):
    """What this side does better than gradus."""
    ours = ours_of(work)
    if not ours or is_gradus(side) or side["label"] == "floor" or "seconds" not in side:
        return []
    better = []
    ratio = ratio_of(work, side)
    if ratio and ratio < 1:
        near = ratio > 1 - DRAW and (is_solved(work) or side["most"] >= ours["least"])
        better.append("draw" if near else "faster")
    if is_solved(work):
        evals = mean_ratio(ours, side, "each")
        better += ["solves more"] if side["solved"] > ours["solved"] else []
        better += ["fewer evaluations"] if evals and evals < 0.995 else []
    if side.get("score", 0) > ours.get("score", 1) + 0.01:
        better.append("better score")
    return better


def lost(work):
    """Labels of the sides that win, with what."""
    found = {s["label"]: wins(work, s) for s in work["sides"]}
    return {label: what for label, what in found.items() if what}


def reason_for(work, label):
    for name, given in REASONS.items():
        if name in (work["name"], work["group"]) or (name.endswith("*") and work["name"].startswith(name[:-1])):
            if label in given or "*" in given:
                return given.get(label, given.get("*"))
    return None


def named(work):
    return {"name": work.name, "group": work.group, "note": work.note, "curve": list(work.curve)}


# ---- words ----

def time_text(seconds):
    if seconds is None:
        return ""
    for limit, unit, scale in ((1e-6, "ns", 1e9), (1e-3, "us", 1e6), (1, "ms", 1e3)):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def memory_text(size):
    return "" if not size else f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def number_text(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}" if value < 100 else f"{value:.0f}"


def columns_of(work):
    if is_solved(work):
        many = any(len(s.get("each", [])) > 1 for s in work["sides"])
        return ["peer", "solved", "evaluations", *(["digits"] if any("digits" in s for s in work["sides"]) else []),
                "evaluations / gradus" if many else "", "time / gradus", "time of all" if many else "time", "peak memory", "start-up"]
    score = ["score"] if any("score" in s for s in work["sides"]) else []
    floor = ["time / floor"] if floor_of(work) else []
    started = [] if work["group"] == "start" else ["start-up"]
    return ["peer", *score, "time", "time / gradus", *floor, "peak memory", *started]


def cell(work, side, column):
    ours, floor = ours_of(work), floor_of(work)
    return {
        "peer": lambda: f"**{side['label']}**" if side is ours else side["label"],
        "score": lambda: number_text(side.get("score"), 3),
        "time": lambda: time_text(side["seconds"]),
        "time of all": lambda: time_text(side["seconds"]),
        "time / gradus": lambda: number_text(ratio_of(work, side)),
        "time / floor": lambda: number_text(side["seconds"] / floor),
        "solved": lambda: f"{side.get('solved', 0):.0f} of {len(side['each'])}",
        "digits": lambda: number_text(side.get("digits"), 1),
        "evaluations": lambda: f"{side.get('evals', 0):.0f}",
        "evaluations / gradus": lambda: number_text(mean_ratio(ours, side, "each") if ours else None),
        "peak memory": lambda: memory_text(side.get("peak")),
        "start-up": lambda: time_text(side.get("start")),
    }[column]()


def row_of(work, side, columns):
    if "seconds" not in side:
        return [side["label"], *[""] * (len(columns) - 2), side.get("missing", "no figure").replace("|", "\\|")]
    return [cell(work, side, c) for c in columns]


def table(columns, rows):
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *("| " + " | ".join(r) + " |" for r in rows)]


def checked(work):
    """Whether all sides computed the same thing; the words where they did not."""
    told = {s["label"]: s["check"] for s in work["sides"] if "check" in s}
    ours = next((told[k] for k in told if k.startswith("gradus")), None)
    if ours is None:
        return []
    other = [f"{label} {value:.6g}" for label, value in told.items() if abs(value - ours) > 0.01 * abs(ours)]
    return [f"Results differ: gradus {ours:.6g}, {', '.join(other)}."] if other else []


def reasons_of(work, faults):
    out, drawn = [], []
    said = {}
    for label, what in lost(work).items():
        if what == ["draw"]:
            drawn.append(label)
            continue
        why = reason_for(work, label)
        if not why:
            faults.append(f"{work['name']}: {label} ({', '.join(what)})")
        said.setdefault(why or "no reason written", []).append(f"{label} ({', '.join(w for w in what if w != 'draw')})")
    for why, labels in said.items():
        out.append(f"Ahead of gradus: {', '.join(labels)}. {why}")
    if drawn:
        out.append(f"A draw with {', '.join(drawn)}: nearer than {DRAW:.0%}, and the rounds overlap.")
    return out


def work_page(work, faults):
    columns = [c for c in columns_of(work) if c]
    out = ["", f"### {work['name']}", "", *([work["note"], ""] if work.get("note") else [])]
    out += table(columns, [row_of(work, s, columns) for s in work["sides"]])
    for line in checked(work) + reasons_of(work, faults):
        out += ["", line]
    return out


def summary_row(work):
    ours = ours_of(work)
    rest = [s for s in work["sides"] if not is_gradus(s) and s["label"] != "floor" and "seconds" in s and ratio_of(work, s)]
    best = min(rest, key=lambda s: ratio_of(work, s)) if rest else None
    floor = floor_of(work)
    return [f"{work['name']}", time_text(ours["seconds"]) if ours else "", best["label"] if best else "none",
            time_text(best["seconds"]) if best else "", number_text(ratio_of(work, best)) if best else "",
            number_text(ours["seconds"] / floor) if ours and floor else ""]


def summary(works):
    out = ["", "## In short", "", "The peer that comes nearest to gradus, or goes past it (a ratio below 1). Of sets of problems the ratio is that of the times to the "
           "target; the times are those of whole runs.", ""]
    rows = []
    for work in works:
        if work["group"] != "size":
            rows.append([GROUPS[work["group"]] if not rows or work["group"] != last else "", *summary_row(work)])
            last = work["group"]
    return out + table(["", "work", "gradus", "nearest peer", "its time", "its time / gradus", "gradus / floor"], rows)


# ---- pictures ----

PICTURES = {
    "step": ("A step of clip_norm | adam | weight_decay | lr, f32", "log10 of the parameters"),
    "gradient": ("Value and gradient of the chained Rosenbrock function, f64", "log10 of the numbers"),
    "fit": ("A curve of six parameters", "log10 of the rows"),
}


def draw(found, picture, gradus, out):
    """The figures as traces of the program, which draws them: the step is the power of ten, the loss the seconds."""
    title, below = PICTURES[picture]
    curves = {}
    for work in found["works"]:
        if work.get("curve") and work["curve"][0] == picture:
            for s in work["sides"]:
                if "seconds" in s:
                    curves.setdefault(s["label"], []).append((work["curve"][1], s["seconds"]))
    curves = {label: points for label, points in curves.items() if len(points) > 1}
    if not curves:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command, labels = [gradus, "plot"], []
        for number, (label, points) in enumerate(curves.items()):
            trace = Path(folder) / f"{number}.jsonl"
            trace.write_text("".join(json.dumps({"step": k, "loss": t}) + "\n" for k, t in points), encoding="utf-8")
            command.append(trace)
            labels += ["--label", label]
        made = Path(folder) / "out.svg"
        subprocess.run([*command, *labels, "--scale", "log", "--title", title, "--out", made], check=True, stdout=subprocess.DEVNULL)
        drawn = made.read_text(encoding="utf-8").replace(">step</text>", f">{below}</text>").replace(">loss</text>", ">seconds</text>")
    (out / f"peers-{picture}.svg").write_text(drawn, encoding="utf-8")
    return f"![{title}: seconds against {below}](peers-{picture}.svg)"


# ---- the page ----

def machine_text(found):
    m = found["machine"]
    built = [f"gradus built from {m['commit']} by {m['compiler']}"] if m.get("compiler") else []
    return ", ".join([m["processor"], f"{m['threads']} threads for everybody", m["memory"], m["system"], *([f"Python {m['python']}"] if "python" in m else []),
                      *built])


def limits_text(found):
    """What anybody may take."""
    if "limit" not in found:
        return []
    return ["", f"Everybody has {found['limit']} s for a work: who needs more is stopped, and his row says so. Once the rounds of a side have taken "
            f"{found['enough']} s there are no more of them, but there is one. A problem of a set may take {SOLVING}."]


def load_text(found):
    """Load averages, and what others used meanwhile."""
    loads = found.get("loads", [])
    if not loads:
        return []
    out = ["", f"Load average: {loads[0]['start']:.2f} at the start, {loads[-1]['end']:.2f} at the end, {max(x['most'] for x in loads):.2f} at most, this run's own "
           f"{found['machine']['threads']} threads included."]
    told = {w["name"]: w["others"] for w in found["works"] if w.get("others") is not None}
    if not told and max(x["most"] for x in loads) > found["machine"]["threads"] + BUSY:
        return [*out, "", f"**Other work ran on the machine: a load of more than {found['machine']['threads'] + BUSY:g}. Figures may be too large.**"]
    busy = {name: value for name, value in told.items() if value > BUSY}
    if busy:
        most = max(busy, key=busy.get)
        out += ["", f"**Other work ran on the machine, more than {BUSY:g} of a processor, during {len(busy)} of {len(found['works'])} works (most during "
                f"\"{most}\": {busy[most]:.1f} processors). Their figures may be too large.**"]
    elif told:
        out[-1] += f" Nobody else kept more than {max(told.values()):.2f} processors busy during any work."
    return out


def head(found):
    there = [f"{name} {version}".strip() for name, version in found["versions"].items() if name not in ("floor", "gradus program", "gradus.torch")]
    when = found["date"] + (f" to {found['until']}" if "until" in found else "")
    out = ["# Beside the peers", "",
           f"Made by `./dev bench peers` on {when} in {round(found['seconds'] / 60)} minutes: {machine_text(found)}. "
           "All sides of a work are measured in turn, round after round; times are medians of the rounds. Start-up is the time "
           "from the start of a process to its first result, imports and compilation included; of sets of problems, to their beginning. Peak memory is that "
           "of the process, libraries included.", "",
           "Versions: " + ", ".join(there) + ".", *limits_text(found), *load_text(found)]
    if found["missing"]:
        out += ["", "Not there: " + "; ".join(f"{name} ({why})" for name, why in found["missing"].items()) + "."]
    if found["quick"]:
        out += ["", "**A quick run: small sizes, one round. These figures say that it runs, nothing else.**"]
    if found.get("left"):
        out += ["", f"**Stopped before its end. Not measured: {'; '.join(found['left'])}.**"]
    return out


def group_page(found, group, works, pictures, faults):
    out = ["", f"## {GROUPS[group]}", "", ABOUT[group]]
    for name in ("step",) if group == "size" else ("gradient",) if group == "curvature" else ("fit",) if group == "fit" else ():
        if pictures.get(name):
            out += ["", pictures[name]]
    for work in works:
        out += work_page(work, faults)
    return out


def write(found, out, gradus):
    """0; 1 where a row that another peer wins has no reason."""
    faults = []
    pictures = {name: draw(found, name, gradus, out) for name in PICTURES}
    lines = head(found) + summary(found["works"])
    for group in GROUPS:
        works = [w for w in found["works"] if w["group"] == group]
        if works:
            lines += group_page(found, group, works, pictures, faults)
    (out / "peers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{out / 'peers.md'}: {len(found['works'])} works, {sum(len(w['sides']) for w in found['works'])} rows")
    for fault in faults:
        print(f"no reason written: {fault}", file=sys.stderr)
    return 1 if faults and not found["quick"] else 0
