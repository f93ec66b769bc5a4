"""Samples of the documentation: the fenced blocks of its Markdown pages.

  ```sh, ```c, ```python     run, in the order of the page; a C block whose first line is /* name.c */ becomes that file, for commands
                             that compile it, and one without main() is run as the body of one
  ```text                    directly below one of them: what it prints.  Numbers may differ in their last digits, times by any
                             amount, and a line of ... stands for any lines
  <pre lang="sh">...</pre>   the same in a table of HTML, for samples side by side
  <!-- illustration: why -->  on the line before a block: it is not run.  Such blocks are counted
"""
import html
import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.S | re.M)
PRE = re.compile(r'^<pre lang="(\w+)">\n(.*?)^</pre>$', re.S | re.M)
MARK = re.compile(r"<!-- illustration: ([^\n]+?) -->\n\Z")
TIME = re.compile(r"\b[0-9.]+(?:e[+-]?[0-9]+)? ?(?:s|ms|us|rows/s)\b")
NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?(?![\w])")


@dataclass
class Block:
    language: str
    text: str
    page: Path
    line: int
    start: int  # of the text, in the page
    illustration: str = ""
    output: "Block" = None  # what it prints
    beside: bool = False  # in a table

    @property
    def name(self):
        found = re.match(r"/\* (\w+\.[ch]) \*/\n|# (\w+\.py)\n", self.text)
        return next((n for n in found.groups() if n), None) if found else None

    def __str__(self):
        return f"{self.page.name}:{self.line}"


def blocks(page):
    text, found, last = page.read_text(encoding="utf-8"), [], 0
    for match in FENCE.finditer(text):
        mark = MARK.search(text[:match.start()])
        block = Block(match.group(1).strip().split(" ")[0], match.group(2), page, text.count("\n", 0, match.start()) + 1, match.start(2),
                      mark.group(1) if mark else "")
        if block.language == "text" and found and not text[last:match.start()].strip() and found[-1].language != "text":
            found[-1].output = block
        found.append(block)
        last = match.end()
    for match in PRE.finditer(text):
        plain = html.unescape(match.group(2)).replace("\xa0", "")
        found.append(Block(match.group(1), plain, page, text.count("\n", 0, match.start()) + 1, match.start(2), beside=True))
    return found


def pages(root):
    return [root / "README.md", *sorted(p for p in (root / "docs").rglob("*.md"))]


def same_line(shown, said):
    shown, said = (re.sub(r"\s+", " ", TIME.sub("TIME", line)).strip() for line in (shown, said))
    if NUMBER.sub("#", shown) != NUMBER.sub("#", said):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(said))
    return all(abs(float(a) - float(b)) <= 1e-6 + 0.02 * abs(float(a)) for a, b in pairs)


def same(shown, said):
    """Does what a page shows describe what was said?"""
    shown, said = shown.rstrip().split("\n"), said.rstrip().split("\n")
    for i, line in enumerate(shown):
        if line.strip() == "...":
            return i + 1 == len(shown) or any(same("\n".join(shown[i + 1:]), "\n".join(said[k:])) for k in range(i, len(said)))
        if i >= len(said) or not same_line(line, said[i]):
            return False
    return len(said) == len(shown)


def replace_outputs(page, outputs):
    """For --update: what was said stands in the page.  outputs: [(block, text)] of one page."""
    text = page.read_text(encoding="utf-8")
    for block, said in sorted(outputs, key=lambda o: -o[0].output.start):
        start = block.output.start
        text = text[:start] + said.rstrip() + "\n" + text[start + len(block.output.text):]
    page.write_text(text, encoding="utf-8")
