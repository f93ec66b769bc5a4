"""A page a link, from what the program says of it (gradus links --json) and from a run of its example over a curved valley."""
import json
import math
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap

import header_docs

# The valley: f = (1 - x)^2 + C (y - x^2)^2 from a start on its side, as one number and as residuals.
C, START, STEPS = 10, (-1.3, 0.4), 100
LOSS = f"(1-p[0])^2 + {C}*(p[1]-p[0]^2)^2"
RESIDUALS = f"[1-p[0], {C ** 0.5:.17g}*(p[1]-p[0]^2)]"
LEFT, RIGHT, BOTTOM, TOP = -1.9, 1.9, -0.9, 2.5
WIDTH, HEIGHT = 480, 430

FAMILIES = {  # title, where such a link stands in a chain
    "adaptive": ("Adaptive methods", "After clipping and before `weight_decay` and `lr`: it turns gradients into steps of like size for all parameters. For training with noisy gradients."),
    "clipping": ("Clipping", "First in a chain, before averages take the gradient up; last, before `lr`, to bound the step itself."),
    "conjugate_gradient": ("Conjugate gradients", "Before a line search (`strong_wolfe`), for smooth losses without noise and with too many parameters for a matrix."),
    "constraints": ("Constraints", "Before or around a whole chain, which then steps over what the constraints leave."),
    "core": ("Building blocks", "Anywhere."),
    "global_search": ("Global search", "A whole chain of its own, or around one: for losses with many minima and few parameters."),
    "grad_approximation": ("Estimated gradients", "First: what follows takes the estimate for the gradient. For losses that have none, or one that is noise."),
    "higher_order": ("Higher orders", "A whole step of its own, for few parameters and smooth losses."),
    "least_squares": ("Least squares", "For losses that are vectors of residuals, with a trust region around it."),
    "line_search": ("Line searches", "Last in a chain: takes the update for a direction and looks along it, so no `lr`. After quasi-Newton, Newton or conjugate gradients, for losses without noise."),
    "misc": ("Other", "See its formula."),
    "momentum": ("Momentum", "Behind clipping and before `lr`; averages of the updates that come."),
    "ops": ("Arithmetic", "Anywhere: what optimizers of one's own are made of. Those that take chains as settings combine their results element by element."),
    "presets": ("Presets", "A name for a whole chain; `gradus explain` shows its links."),
    "projections": ("Projections", "Around a chain, which then steps in another space than that of the parameters."),
    "psgd": ("Preconditioned SGD", "Before `lr`, behind momentum: learns a preconditioner from products with the Hessian or from gradients alone."),
    "quasi_newton": ("Quasi-Newton", "Before a line search or inside a trust region, for smooth losses without noise."),
    "restarts": ("Restarts", "Around the link whose memory it clears."),
    "second_order": ("Newton's methods", "Before a line search or inside a trust region; the objective is differentiated twice."),
    "smoothing": ("Smoothing", "Before the rest of a chain, which sees a smoother loss or update."),
    "step_size": ("Step sizes", "Last in a chain, or before `lr`: says how long the step is."),
    "termination": ("Termination", "At the end: changes nothing, and says when to stop."),
    "trust_region": ("Trust regions", "A whole step: takes the link whose Hessian it uses as its setting, and needs neither `lr` nor a line search."),
    "variance_reduction": ("Variance reduction", "First: what follows sees a gradient with less noise."),
    "weight_decay": ("Weight decay", "Behind the adaptive part and before `lr`; before it, it is an L2 penalty on the loss."),
    "zeroth_order": ("Without gradients", "A whole step of its own, from losses alone."),
}
FORMULAS = """\
Statements stand one a line and are carried out in order, in each step. What they give a name to is kept until the next step; it begins
at 0, or at what ``v_0 = ...`` or the list below the formula says. The last line, where it gives no name to anything, is the update that goes on to the next link; at the
end of a chain it is subtracted from the parameters.

``a b`` is a product, of vectors their dot product (``s y``), ``y^T`` a row and ``s s^T`` a matrix. Names of settings stand for their values, and a
setting that is a chain is a function of the update, ``other(u)``. ``norm(u)``, ``sum(u)`` and ``|u|`` are those of a tensor, or of all
parameters together where the link sees them as one vector ("several processes" on its page says so); the rest goes by elements. What begins
with ``~`` is random.""".split("\n")
SPREAD = {
    "flat": "element by element",
    "tensor": "tensor by tensor",
    "vector": "all parameters as one vector, element by element but for dot products",
    "whole": "every process does all of it",
    "flat, else tensor": "element by element, or with some settings tensor by tensor",
}


# ---- the path ----

def with_lr(chain, factor):
    """The same chain with another learning rate; None where it has none."""
    found = re.search(r"\blr(?:\(|=)(-?[0-9.e-]+)", chain)
    if not found:
        return chain if factor == 1 else None
    return chain[: found.start(1)] + f"{float(found.group(1)) * factor:g}" + chain[found.end(1):]


def example_of(link):
    """Its example; of a preset that is nothing but its name, with the learning rate that it has by default."""
    rate = next((s["default"] for s in link["settings"] if s["name"] == "lr"), "")
    return f"{link['name']}(lr={rate})" if link["example"] == link["name"] and rate else link["example"]


def run(gradus, folder, chain, loss):
    """The points of a run, and the loss where it ends; None where the chain does not run on this."""
    trace = Path(folder) / "trace.jsonl"
    trace.unlink(missing_ok=True)
    subprocess.run([gradus, "minimize", loss, "--param", f"p=[{START[0]},{START[1]}]", "--chain", chain, "--steps", str(STEPS), "--threads", "1",
                    "--trace", str(trace)], capture_output=True, check=False)
    if not trace.exists():
        return None
    points = []
    for line in trace.read_text(encoding="utf-8").splitlines():
        p = json.loads(line)["params"]["p"]
        if any(isinstance(x, str) or x != x or abs(x) > 50 for x in p):
            return points, float("inf")
        points.append(tuple(p))
    return (points, value(points[-1])) if points else None


def value(p):
    return (1 - p[0]) ** 2 + C * (p[1] - p[0] ** 2) ** 2


def path_of(gradus, chain):
    """(chain, points): with the learning rate of its example, or one that goes further on this function."""
    best = None
    with TemporaryDirectory() as folder:
        for factor in (1, 10, 100, 0.1, 0.01, 1e-3, 1e-4):
            tried = with_lr(chain, factor)
            if tried is None:
                break
            got = run(gradus, folder, tried, LOSS) or run(gradus, folder, tried, RESIDUALS)
            if got and (best is None or got[1] < best[2]):
                best = (tried, *got)
            if best and best[2] < 0.05 * value(START):
                break
    return (best[0], best[1]) if best and len(best[1]) > 1 else None


def place(p):
    return (p[0] - LEFT) / (RIGHT - LEFT) * WIDTH, HEIGHT - (p[1] - BOTTOM) / (TOP - BOTTOM) * HEIGHT


def contour(level):
    """The curve f = level, which has a closed form: y = x^2 +- sqrt((level - (1 - x)^2) / C)."""
    n, root = 48, level ** 0.5
    xs = [1 - root * math.cos(math.pi * i / n) for i in range(n + 1)]
    half = [(x, max(level - (1 - x) ** 2, 0) / C) for x in xs]
    points = [(x, x * x + h ** 0.5) for x, h in half] + [(x, x * x - h ** 0.5) for x, h in reversed(half)]
    return "M" + "L".join("{:.0f} {:.0f}".format(*place(p)) for p in points) + "Z"


def picture(name, points):
    rings = "".join(f'<path d="{contour(0.12 * 2.6 ** k)}"/>' for k in range(7))
    inside = [place(p) for p in points]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in inside)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in inside[1:] if 0 <= x <= WIDTH and 0 <= y <= HEIGHT)
    sx, sy = place(START)
    mx, my = place((1, 1))
    return (f'<svg class="path" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="The path of {name} down a curved valley">'
            f'<g class="rings">{rings}</g><path class="line" d="{line}"/><g class="dots">{dots}</g>'
            f'<circle class="start" cx="{sx:.1f}" cy="{sy:.1f}" r="6"/>'
            f'<path class="goal" d="M{mx - 7:.1f} {my - 7:.1f}l14 14m0 -14l-14 14"/></svg>')


# ---- the page ----

def rst(text):
    """Text with `code` in it."""
    out = []
    for i, piece in enumerate(re.split(r"`([^`]+)`", text)):
        # what looks like FILE:NAME would become a link
        out.append(f"\\ ``{piece}``\\ " if i % 2 else re.sub(r"([\\*|_]|(?<=\w):(?=\S))", r"\\\1", piece))
    return "".join(out)


def table(rows, widths, header=None):
    yield from (".. list-table::", f"   :widths: {widths}")
    if header:
        yield "   :header-rows: 1"
    yield ""
    for row in ([header] if header else []) + rows:
        for i, cell in enumerate(row):
            yield ("   * - " if i == 0 else "     - ") + cell
    yield ""


def literal(text):
    return f"``{text}``" if text else ""


def choices(setting):
    """What it takes, in words that lines may be broken between."""
    return "(" + ", ".join(setting["kind"].split("|")) + ")"


def is_needed(setting):
    return setting["default"] == "must be given"


def used_by(link, links):
    """Links whose example has this one."""
    return [o["name"] for o in links if o is not link and re.search(rf"\b{link['name']}\b", o["example"])][:12]


def chain_section(link, links):
    title, where = FAMILIES[link["family"]]
    yield from ("In a chain", "----------", "", rst(where), "")
    rows = [["cost", rst(link["cost"])]] if link["cost"] else []
    if link["state"]:
        rows.append(["state", rst(link["state"])])
    rows.append(["several processes", rst(SPREAD.get(link["spread"], link["spread"]))])
    rows.append(["example", literal(link["example"])])
    if link["preset"]:
        rows.append(["stands for", literal(link["preset"])])
    others = used_by(link, links)
    if others:
        rows.append(["also in examples of", ", ".join(f":doc:`{n}`" for n in others)])
    yield from table(rows, "25 75")


def c_section(name, entry):
    yield from ("In C", "----", "", "``#include <gradus/links.h>``", "")
    for d in entry.declarations:
        if d.kind == "type":
            yield from (f".. c:type:: {d.names[0]}", "", "   .. code-block:: c", "", *("      " + line for line in d.text.split("\n")), "")
    for d in entry.declarations:
        if d.kind == "function":
            says = "New; NULL options are the defaults." if d.names[0].endswith("_new") else "The settings above."
            yield from (f".. c:function:: {d.signature}", "", f"   {says}", "")
    for d in entry.declarations:
        if d.kind == "macro":
            yield from (f".. c:macro:: {d.signature}", "", "   Kinds and names of the settings, for macros that go over all links.", "")


def page(link, links, entry, path, in_python):
    name = link["name"]
    # no part of the tree at the side, which every page would have to carry
    yield from (":orphan:", "", name, "=" * max(len(name), 3), "")
    yield from (f":doc:`Links <index>` / {FAMILIES[link['family']][0].lower()}", "", f"*{rst(link['summary'])}*", "")
    settings = ", ".join(s["name"] if is_needed(s) else f"{s['name']}={s['default']}" for s in link["settings"])
    call = wrap(f"{name}({settings})" if settings else name, 76, subsequent_indent="     ", break_long_words=False, break_on_hyphens=False)
    yield from (".. code-block:: text", "", *("   " + line for line in call), "")
    if link["formula"]:
        yield from ("Formula", "-------", "", ".. code-block:: text", "", *("   " + part for part in re.split(r"(?<=;)\s+", link["formula"])), "")
        if link["symbols"]:
            yield from (*(f"| ``{s['name']}``: {rst(s['meaning'])}" for s in link["symbols"]), "")
        yield from (":ref:`How to read formulas <formulas>`.", "")
    if link["paper"]:
        yield from (rst(link["paper"]) + ".", "")
    if path:
        chain, points = path
        yield from (".. raw:: html", "", "   <figure class=\"path-figure\">" + picture(name, points) + "</figure>", "")
        yield from (f"{literal(chain)}: {len(points) - 1} steps down a curved valley, "
                    f"(1 - x)² + {C} (y - x²)², from the circle; the cross is its minimum.", "")
    yield from ("Settings", "--------", "")
    if link["settings"]:
        # what it takes stands below what it is: a column of its own leaves no room on a phone
        rows = [[literal(s["name"]), "must be given" if is_needed(s) else literal(s["default"]), f"{rst(s['help'])} :takes:`{choices(s)}`"]
                for s in link["settings"]]
        yield from (".. role:: takes", "", *table(rows, "20 18 62", ["name", "default", "what, and what it takes"]))
    else:
        yield from ("None.", "")
    yield from chain_section(link, links)
    yield from ("In Python", "---------", "", f".. py:function:: {in_python(name)}", "", "   A chain of this link alone; ``|`` joins chains.", "")
    if entry:
        yield from c_section(name, entry)


def lists_section(entries):
    """What gradus/links.h has of all links together."""
    yield from ("In C", "----", "", "``#include <gradus/links.h>``", "")
    for entry in entries:
        for d in entry.declarations:
            yield from (f".. c:macro:: {d.signature}", "", f"   {rst(header_docs.flat(d.note or entry.comment))}", "")


def index(links, lists):
    yield from ("Links", "=====", "", f"{len(links)} links that chains are made of, by family. At a shell ``gradus links`` lists them and "
                "``gradus links NAME`` explains one. :doc:`/concepts/chains` tells how they fuse.", "")
    yield from (".. _formulas:", "", "How to read formulas", "--------------------", "", *FORMULAS, "")
    for family, (title, where) in FAMILIES.items():
        mine = [link for link in links if link["family"] == family]
        if mine:
            yield from (title, "-" * len(title), "", rst(where), "")
            yield from table([[f":doc:`{link['name']}`", rst(link["summary"])] for link in mine], "30 70")
    yield from lists_section(lists)


def unexplained(link):
    """Letters of a formula that neither it, nor a setting, nor the list below it explains."""
    text = re.sub(r"\^T\b|\b[a-z]+=\w+|\ba (?=[a-z]{2,}\b)|`[^`]*`", " ", link["formula"])
    said = {s["name"] for s in link["settings"]} | {s["name"] for s in link["symbols"]}
    said |= {n for n in re.findall(r"\b([A-Za-z])(?:_\w+)? (?:=|\+=|<-|~|the|its)(?= )", text)}
    said |= set(re.findall(r"\b(?:element|axis) ([a-z])\b", text))
    said |= {n for names in re.findall(r"\b((?:[A-Z], )+[A-Z]) (?:the|\[)", text) for n in re.findall("[A-Z]", names)}
    letters = set(re.findall(r"(?<![\w.'])([A-Za-z])(?![\w(.'])", text)) | set(re.findall(r"\b([A-Za-z])_(?=[\w(])", text))
    known = {name[0] for name in said if re.fullmatch(r"\w_\w+", name)} | said
    return sorted(letters - known)


def undocumented(links):
    for link in links:
        for letter in unexplained(link):
            yield f"{link['name']}: nobody says what {letter} is in its formula: src/optim/link/symbols.c"
        if link["family"] not in FAMILIES:
            yield f"{link['name']}: nobody says where links of the family '{link['family']}' stand in a chain: tools/docs/link_pages.py"
        for key in ("summary", "formula", "cost", "example", "spread"):
            if not link[key] and not (link["preset"] and key in ("formula", "cost")):
                yield f"{link['name']} has no {key}"
        for setting in link["settings"]:
            if not setting["help"] or not setting["kind"]:
                yield f"{link['name']}: nobody says what the setting {setting['name']} is"


def all_links(gradus):
    said = subprocess.run([gradus, "links", "--json"], capture_output=True, text=True, check=True).stdout
    return sorted(json.loads(said)["links"], key=lambda link: link["name"])


def write(gradus, folder, header, in_python):
    """The pages; what is undocumented ends it.  in_python: the signature of a link as a function of the package."""
    links = all_links(gradus)
    faults = list(undocumented(links))
    if faults:
        raise SystemExit("\n".join(faults))
    all_entries = header_docs.read(header).entries
    entries = {n: e for e in all_entries for n in e.names}
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        paths = list(pool.map(lambda link: path_of(gradus, example_of(link)), links))
    for link, path in zip(links, paths):
        # `sequential` is gd_sequential_link_new: the other name is a layer's
        entry = entries.get(f"gd_{link['name']}_new") or entries.get(f"gd_{link['name']}_link_new")
        (folder / f"{link['name']}.rst").write_text("\n".join(page(link, links, entry, path, in_python)) + "\n", encoding="utf-8")
    (folder / "index.rst").write_text("\n".join(index(links, [e for e in all_entries if e.name.startswith("GD_")])) + "\n", encoding="utf-8")
    without = [link["name"] for link, path in zip(links, paths) if not path]
    if without:
        raise SystemExit(f"link_pages: the example diverges or does not run, so there is no picture of {', '.join(without)}")
    print(f"{len(links)} links, each with a picture")
    return links
