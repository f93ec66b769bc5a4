"""What the public headers declare, with the comment that belongs to it: for the manual, the site and the check that nothing is
undocumented.

How our headers are written, and therefore read:
  - The first comment is the header's own text.
  - `/* ---- title ---- */` begins a section; what stands in it after the title is the section's text.
  - A comment directly above a declaration belongs to it and to those that follow without a blank line, up to the next comment
    that stands above one: together they are an entry.
  - A comment behind the end of a declaration, on its last line, is a note on that one alone.
What has neither is undocumented.
"""
import re
from dataclasses import dataclass, field
from pathlib import Path

TITLE = re.compile(r"-{4} (.*?) -{4}", re.S)
TOKEN = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<directive>^[ \t]*#(?:[^\n\\/]|/(?!\*)|\\\n|\\.)*)|(?P<blank>\n[ \t]*(?=\n))|(?P<space>\s+)"
                   r"|(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<other>.)", re.S | re.M)


@dataclass
class Declaration:
    kind: str  # function, type, values, macro
    names: list
    text: str  # as it stands in the header
    line: int
    signature: str = ""  # of a function, on one line, without attributes; of a macro, its name and parameters
    note: str = ""


@dataclass
class Entry:
    """Declarations that share a comment."""

    declarations: list
    comment: str = ""
    header: str = ""

    @property
    def name(self):
        return self.declarations[0].names[0]

    @property
    def names(self):
        return [n for d in self.declarations for n in d.names]


@dataclass
class Section:
    title: str
    text: str
    entries: list = field(default_factory=list)


@dataclass
class Header:
    name: str
    text: str
    sections: list

    @property
    def entries(self):
        return [e for s in self.sections for e in s.entries]


def comment_text(comment):
    """The text of a comment without stars; lines stay lines."""
    lines = comment[2:-2].split("\n")
    lines = [re.sub(r"^\s*\*? ?", "", line, count=1) if i and re.match(r"^ \*", line) else line for i, line in enumerate(lines)]
    first = lines[0].strip()
    rest = lines[1:]
    if rest and not comment.split("\n")[1].startswith(" *"):  # behind a declaration: lines are indented to anywhere
        return " ".join([first, *(line.strip() for line in rest)]).strip()
    return "\n".join([first, *(line.rstrip() for line in rest)]).strip()


def flat(text):
    return re.sub(r"\s+", " ", text).strip()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


ATTRIBUTES = re.compile(r"\bGD_NODISCARD\b|\bGD_PRINTF\([^)]*\)|\bstatic inline\b|__attribute__\(\(.*?\)\)")


def read_declaration(text, line):
    """A declaration, a definition or None for what declares nothing of ours."""
    code = flat(ATTRIBUTES.sub("", without_comments(text)))
    if code.startswith("typedef"):
        pointer = re.match(r"typedef [^{]*?\(\*(\w+)\)\(", code)
        name = pointer.group(1) if pointer else re.search(r"(\w+)\s*;$", code).group(1)
        return Declaration("type", [name], text, line)
    if code.startswith(("enum {", "enum{")):
        return Declaration("values", re.findall(r"\b(GD_\w+)\s*(?:=|,|\})", code), text, line)
    found = re.match(r"(?:extern )?[\w ]+[ *][\w *]*?(gd_\w+)\(", code)
    if found:
        return Declaration("function", [found.group(1)], text, line, signature(code))
    found = re.match(r"extern .*?\b(gd_\w+)(?:\[\w*\])?;$", code)
    if found:
        return Declaration("function", [found.group(1)], text, line, code.removeprefix("extern ").rstrip(";"))
    if re.fullmatch(r"struct (?!gd_)\w+;", code):  # of another header
        return None
    raise SystemExit(f"header_docs: line {line}: cannot read: {code[:100]}")


def signature(code):
    """A prototype up to the parenthesis that closes its parameters."""
    depth = 0
    for i, c in enumerate(code):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == ")" and not depth:
            return flat(code[: i + 1]).replace("( ", "(")
    raise SystemExit(f"header_docs: cannot read: {code[:100]}")


def read_macro(text, line):
    found = re.match(r"#\s*define\s+(\w+)(\([^)]*\))?", text)
    name = found.group(1)
    return Declaration("macro", [name], re.sub(r"[ \t]*\\\n", " \\\n", text), line, name + (found.group(2) or ""))


class Reader:
    def __init__(self, source, name):
        self.source, self.name = source, name
        self.sections = [Section("", "")]
        self.own = None  # the header's own text
        self.comment = None  # one that stands directly above what comes next
        self.run = None  # the entry that a declaration without a comment joins
        self.last = None  # what was declared last, and the line it ends at
        self.seen = set(re.findall(r"#\s*undef\s+(\w+)", source))  # macros that are gone in the end or known already

    def line(self, at):
        return self.source.count("\n", 0, at) + 1

    def see_comment(self, text, at):
        words = comment_text(text)
        if self.own is None:
            self.own = words
            return
        title = TITLE.match(words)
        if title:
            self.sections.append(Section(flat(title.group(1)), words[title.end():].strip()))
            self.comment = self.run = self.last = None
            return
        if words.startswith("clang-format"):
            return
        if self.last and self.last[1] == self.line(at):
            self.last[0].note = words
            self.last = None
            return
        self.comment, self.run, self.last = words, None, None

    def add(self, declaration, end):
        if self.comment is not None or not self.run:
            entry = Entry([declaration], self.comment or "", self.name)
            self.run = entry if self.comment is not None else None
            self.sections[-1].entries.append(entry)
        else:
            self.run.declarations.append(declaration)
        self.comment = None
        self.last = (declaration, self.line(end))

    def directive(self, text, at):
        if not re.match(r"#\s*define\s+(?!GRADUS_(\w+_)?H$)\w+(?<!_)\b", text.strip()):
            return  # a name that ends in _ is a header's own
        macro = read_macro(text, self.line(at))
        if macro.names[0] not in self.seen:
            self.seen.add(macro.names[0])
            self.add(macro, at + len(text))

    def read(self):
        at, n = 0, len(self.source)
        while at < n:
            token = TOKEN.match(self.source, at)
            kind, text = token.lastgroup, token.group()
            if kind == "comment":
                self.see_comment(text, at)
            elif kind == "directive":
                self.directive(text, at)
            elif kind == "blank":
                self.comment = self.run = None
            elif kind != "space":
                at = self.declaration(at)
                continue
            at = token.end()
        return self

    def declaration(self, at):
        """One from here to its semicolon, or to the brace that ends its body."""
        listed = re.compile(r"(GD_\w+)\((GD_\w+)\)\n").match(self.source, at)
        if listed:
            self.listed(listed)
            return listed.end()
        depth, i, body = 0, at, False
        while True:
            token = TOKEN.match(self.source, i)
            i = token.end()
            if token.lastgroup != "other":
                continue
            c = token.group()
            depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(c, 0)
            body = body or (c == "{" and re.search(r"\)\s*$", without_comments(self.source[at:i - 1])) is not None)
            if not depth and (c == ";" or (c == "}" and body)):
                break
        found = read_declaration(self.source[at:i], self.line(at))
        if found:
            self.add(found, i)
        return i

    def names_of(self, of):
        """The names of a list, which may begin with a list of tensor.h, and the text whose comments say what that one's are."""
        text, source = self.source, ""
        pattern = rf"#\s*define {of}\(X\)((?:[^\n\\]|\\.|\\\n)*)"
        if not re.search(pattern, text):
            text = source = (Path(__file__).parents[2] / "include/gradus/tensor.h").read_text(encoding="utf-8")
        body = re.search(pattern, text).group(1)
        names = re.findall(r"\bX\((\w+)", body)
        for inner in reversed(re.findall(r"(\w+)\(X\)", body)):
            more, where = self.names_of(inner)
            names, source = more + names, source or where
        return names, source

    def listed(self, call):
        """GD_UNARY_LIST(GD_UNARY_PROTOTYPE): one prototype an element of the list, whose meaning stands in the comment above."""
        of, prototype = call.groups()
        names, source = self.names_of(of)
        form = re.search(rf"#\s*define {prototype}\((\w+)\)((?:[^\n\\]|\\.|\\\n)*)", self.source)
        meanings = dict(re.findall(r"^ \*   (\w+)  +(\S.*?)(?: \*/)?$", source, re.M))
        meanings.update(re.findall(r"^ *(\w+)  +(\S.*)$", self.comment or "", re.M))
        comment = (self.comment or "").split("\n")[0]
        self.comment = self.run = None
        for name in names:
            text = flat(form.group(2).replace(f"##{form.group(1)}", name).replace("\\", ""))
            found = read_declaration(text, self.line(call.start()))
            meaning = meanings.get(name, "")
            found.note = meaning
            self.sections[-1].entries.append(Entry([found], comment if meaning else "", self.name))


def in_c(source):
    """Without what only C++ sees; lines keep their numbers."""
    return re.sub(r"^#ifdef __cplusplus\n(.*?)^#(else|endif)$", lambda m: re.sub(r"[^\n]+", "#", m.group(0)), source, flags=re.S | re.M)


def read(path, name=None):
    """A Header, with its name below include/gradus: list.h, link/rule.h."""
    name = name or Path(path).name
    reader = Reader(in_c(Path(path).read_text(encoding="utf-8")), name).read()
    return Header(name, reader.own or "", [s for s in reader.sections if s.entries or s.title])


def read_all(include):
    folder = Path(include) / "gradus"
    return [read(p, p.relative_to(folder).as_posix()) for p in sorted(folder.rglob("*.h"))]


def undocumented(headers):
    """(header, line, names) of what has no comment."""
    for header in headers:
        if not header.text:
            yield header.name, 1, ["the header itself"]
        for entry in header.entries:
            for declaration in entry.declarations:
                if not entry.comment and not declaration.note:
                    yield header.name, declaration.line, declaration.names
