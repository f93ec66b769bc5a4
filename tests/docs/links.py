#!/usr/bin/env python3
"""links.py ROOT GRADUS: every link and setting is documented, what is not is named, and paths of links can be drawn."""
import copy
import re
import sys
from pathlib import Path

ROOT, GRADUS = Path(sys.argv[1]), sys.argv[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "docs"))
import link_pages  # noqa: E402

links = link_pages.all_links(GRADUS)
failures = list(link_pages.undocumented(links))
defined = set(re.findall(r"^LINK\((\w+)\)", (ROOT / "src" / "optim" / "links.def").read_text(), re.M))
failures += [f"{name} of links.def has no page" for name in sorted(defined - {link["name"] for link in links})]
if len(defined) < 200:
    failures.append(f"only {len(defined)} lines in links.def")

adam = next(link for link in links if link["name"] == "adam")
for break_it in (lambda l: l.update(summary=""), lambda l: l.update(formula=""), lambda l: l["settings"][0].update(help=""),
                 lambda l: l.update(family="nobody's"), lambda l: l.update(formula="q u"), lambda l: l.update(symbols=[])):
    broken = copy.deepcopy(adam)
    break_it(broken)
    if not any("adam" in fault for fault in link_pages.undocumented([broken])):
        failures.append(f"nobody misses what {broken} lacks")

# a path begins at the start and, of a method that converges, ends at the minimum; residuals serve where a link wants them
for name in ("lbfgs", "gauss_newton"):
    found = link_pages.path_of(GRADUS, next(link for link in links if link["name"] == name)["example"])
    if not found or found[1][0] != link_pages.START or max(abs(x - 1) for x in found[1][-1]) > 1e-3:
        failures.append(f"the path of {name} does not lead from the start to the minimum: {found}")
    elif 'class="path"' not in link_pages.picture(name, found[1]):
        failures.append(f"no picture of {name}")
# the contours lie where the function has their value
for level in (0.12, 3.0):
    points = [tuple(map(float, p.split())) for p in re.findall(r"[ML](\d+ \d+|-?\d+ -?\d+)", link_pages.contour(level))]
    inside = [(link_pages.LEFT + x / link_pages.WIDTH * (link_pages.RIGHT - link_pages.LEFT),
               link_pages.BOTTOM + (1 - y / link_pages.HEIGHT) * (link_pages.TOP - link_pages.BOTTOM)) for x, y in points]
    if not inside or any(abs(link_pages.value(p) - level) > 0.1 * level + 0.05 * max(1, abs(p[0])) ** 2 for p in inside):
        failures.append(f"the contour of {level} lies elsewhere: {[round(link_pages.value(p), 2) for p in inside][:8]}")
print("\n".join(failures) if failures else f"{len(links)} links")
sys.exit(1 if failures else 0)
