#!/usr/bin/env python3
"""Takes the programs out of Markdown pages.

A fenced ```cpp block is a program when its first line is "// example: NAME"; a second line "// ranks: N" says on how
many ranks it is run (1 if there is none). Other blocks are only read by people.

    examples.py pages SOURCE              prints the pages that are searched: README.md and docs/*.md
    examples.py list PAGE...              prints one line "NAME RANKS PAGE" for each program
    examples.py extract PAGE NAME OUTPUT  writes one program
"""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```cpp[ \t]*\n(// example: *([A-Za-z0-9_]+) *\n.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
RANKS = re.compile(r"\A[^\n]*\n// ranks: *([0-9]+) *\n")


def programs(page):
    """Yields (name, ranks, line, text) of each program of a page."""
    content = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(content):
        text, name = match.groups()
        ranks = RANKS.match(text)
        yield name, int(ranks.group(1)) if ranks else 1, content.count("\n", 0, match.start(1)) + 1, text


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "pages":
        root = Path(sys.argv[2])
        for page in (*root.glob("README.md"), *sorted(root.glob("docs/*.md"))):
            print(page.relative_to(root))
        return 0
    if len(sys.argv) >= 2 and sys.argv[1] == "list":
        seen = {}
        for page in map(Path, sys.argv[2:]):
            for name, ranks, _, _ in programs(page):
                if name in seen:
                    raise SystemExit(f"{page}: the example {name} is also in {seen[name]}")
                seen[name] = page
                print(name, ranks, page)
        return 0
    if len(sys.argv) == 5 and sys.argv[1] == "extract":
        page, wanted, output = Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
        for name, _, line, text in programs(page):
            if name == wanted:
                # errors are reported where the author wrote the program
                output.write_text(f'#line {line} "{page.name}"\n{text}', encoding="utf-8")
                return 0
        raise SystemExit(f"{page}: no example {wanted}")
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
