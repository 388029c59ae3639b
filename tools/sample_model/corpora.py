"""Read the eight text domains as lists of documents, a document being one source file.

Each reader takes the folder of unpacked packages and returns ``{document name: text}``.
Where a source is one big file, its own inner boundaries make the documents: the books of the
Bible, the original files inside SQLite's amalgamation, the sections of ``set.mm``.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

Documents = dict[str, str]

AMALGAMATED_FILE = re.compile(
    r"^/\*{14} (?:Begin file|Continuing where we left off in) (\S+) \*+/$\n"
    r"(.*?)(?=^/\*{14} (?:Begin file|End of|Include|Continuing))",
    re.MULTILINE | re.DOTALL,
)
METAMATH_COMMENT_OR_PROOF = re.compile(r"(\$\(\s.*?\s\$\))|\$=\s.*?\s\$\.", re.DOTALL)
METAMATH_SECTION = re.compile(r"^(?=\$\(\n(?:#\*#\*|=-=-|-\.-\.|####))", re.MULTILINE)
HTML_HIDDEN = re.compile(r"<(style|script|svg)\b.*?</\1>", re.DOTALL)
HTML_START = re.compile(r'<!-- keywords|<div class="?fancy|<h[12]')
JSON_AREAS = ("api", "css", "html", "http", "javascript", "mathml", "svg", "webextensions")
LARGEST_HTML = 300_000  # the longer pages are generated cross-references
CHARACTER_TABLES = ("encodings", "pydoc_data", "_sysconfigdata")


def read(path: Path) -> str:
    """Read a text file, replacing the rare byte that is not UTF-8."""
    return path.read_text(encoding="utf-8", errors="replace")


def prose(unpacked: Path) -> Documents:
    """The King James Bible, a document a book; verses keep their number within the chapter."""
    program = unpacked / "bible-kjv/usr/bin/bible"
    data = unpacked / "bible-kjv-text/usr/lib"
    listing = subprocess.run(
        [program, "-p", f"{data}/", "gen1:1-rev22:21"],
        cwd=data, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip
    books: dict[str, list[str]] = {}
    for block in re.split(r"\n\n(?=\S)", "\n" + listing):
        heading, _, verses = block.strip("\n").partition("\n\n")
        book = heading.rpartition(" ")[0]
        if book:
            books.setdefault(book, []).append(f"{heading}\n\n{verses}\n")
    return {book: "\n".join(chapters) for book, chapters in books.items()}


def rst(unpacked: Path) -> Documents:
    """The reStructuredText sources of Python's documentation."""
    root = unpacked / "python3.11-doc/usr/share/doc/python3.11/html/_sources"
    return {str(path.relative_to(root)): read(path) for path in sorted(root.rglob("*.txt"))}


def python(unpacked: Path) -> Documents:
    """Python's standard library, without tables of character codes and the like."""
    documents = {}
    for package in ("libpython3.11-minimal", "libpython3.11-stdlib"):
        root = unpacked / package / "usr/lib/python3.11"
        for path in sorted(root.rglob("*.py")):
            name = str(path.relative_to(root))
            if not name.startswith(CHARACTER_TABLES):
                documents[name] = read(path)
    return documents


def c(unpacked: Path) -> Documents:
    """SQLite, a document an original file of the amalgamation (parts of a split file join)."""
    text = read(unpacked / "better-sqlite3/package/deps/sqlite3/sqlite3.c")
    documents: Documents = {}
    for name, body in AMALGAMATED_FILE.findall(text):
        documents[name] = documents.get(name, "") + body
    return documents


def json_data(unpacked: Path) -> Documents:
    """MDN's browser compatibility data, a document a feature at the second or third level."""
    data = json.loads(read(unpacked / "browser-compat-data/package/data.json"))
    documents = {}
    for area in JSON_AREAS:
        for name, tree in data[area].items():
            features = {name: tree} if "__compat" in tree else tree
            for feature, value in features.items():
                document = json.dumps({feature: value}, indent=1, ensure_ascii=False)
                documents[f"{area}/{name}/{feature}"] = document + "\n"
    return documents


def chinese(unpacked: Path) -> Documents:
    """The Complete Tang Poems, a document a volume: title, poet, lines."""
    root = unpacked / "chinese-poetry/package/dist/yudingquantangshi/json"
    documents = {}
    for path in sorted(root.glob("*.json")):
        poems = [
            "\n".join([poem["title"], poem["author"], *poem["paragraphs"]])
            for poem in json.loads(read(path))
            if poem["paragraphs"]
        ]
        documents[path.stem] = "\n\n".join(poems) + "\n"
    return documents


def html(unpacked: Path) -> Documents:
    """SQLite's documentation pages from the first heading on, without the shared page head."""
    root = unpacked / "sqlite3-doc/usr/share/doc/sqlite3"
    documents = {}
    for path in sorted(root.rglob("*.html")):
        page = HTML_HIDDEN.sub("", read(path))
        start = HTML_START.search(page)
        if start and len(page) < LARGEST_HTML:
            documents[str(path.relative_to(root))] = page[start.start() :]
    return documents


def strip_proofs(text: str) -> str:
    """Replace every Metamath proof by ``?``, which the language allows for a missing one.

    Comments are passed over whole, since some of them speak of ``$=`` and ``$.``.
    """
    return METAMATH_COMMENT_OR_PROOF.sub(lambda match: match[1] or "$= ? $.", text)


def math(unpacked: Path) -> Documents:
    """Metamath's ``set.mm`` without proofs, a document a section."""
    text = read(unpacked / "metamath-databases/usr/share/metamath/databases/set.mm")
    sections = METAMATH_SECTION.split(strip_proofs(text))
    return {f"section-{number:04d}": section for number, section in enumerate(sections)}


READERS: dict[str, Callable[[Path], Documents]] = {
    "prose": prose,
    "rst": rst,
    "python": python,
    "c": c,
    "json": json_data,
    "chinese": chinese,
    "html": html,
    "math": math,
}
