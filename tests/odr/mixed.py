#!/usr/bin/env python3
"""Checks that files with and without MTF_COMPILED do not link to one program, and that the linker says why.

Files that are compiled alike must link. The libraries behind the compiled part are left out, so what is undefined is
allowed here; what is defined twice is not.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SYMBOL = "mtf_files_with_and_without_MTF_COMPILED_are_mixed"
FIRST = "#include <mtf/core/config.hpp>\nint other();\nint main() { return other(); }\n"
SECOND = "#include <mtf/core/config.hpp>\nint other();\nint other() { return 0; }\n"


def main():
    parser = argparse.ArgumentParser(description="files with and without the compiled part do not link")
    parser.add_argument("compiler")
    parser.add_argument("include", type=Path)
    parser.add_argument("library", type=Path)
    options = parser.parse_args()

    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)

        def run(*words):
            return subprocess.run([options.compiler, *map(str, words)], cwd=work, env=dict(os.environ, LC_ALL="C"), text=True,
                                  errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

        def compile_file(name, text, compiled):
            (work / f"{name}.cpp").write_text(text)
            made = work / f"{name}{'_compiled' if compiled else ''}.o"
            done = run("-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{options.include.resolve()}",
                       *(["-DMTF_COMPILED"] if compiled else []), "-c", f"{name}.cpp", "-o", made)
            if done.returncode != 0:
                raise SystemExit(done.stdout)
            return made

        first = [compile_file("first", FIRST, compiled) for compiled in (False, True)]
        second = [compile_file("second", SECOND, compiled) for compiled in (False, True)]
        for a in (False, True):
            for b in (False, True):
                # Without the library where no file asks for it.
                library = [options.library.resolve()] if a or b else []
                link = run(first[a], second[b], *library, "-Wl,--unresolved-symbols=ignore-all", "-o", work / "program")
                names = f"{first[a].name} and {second[b].name}"
                if a == b and link.returncode != 0:
                    problems.append(f"{names} do not link:\n{link.stdout}")
                if a != b and (link.returncode == 0 or SYMBOL not in link.stdout):
                    problems.append(f"{names} link, or nothing is said of {SYMBOL}:\n{link.stdout}")
        # A file that wants the compiled part, without the library.
        link = run(first[1], second[1], "-o", work / "program")
        if link.returncode == 0 or "mtf_compiled_part" not in link.stdout:
            problems.append(f"links without the library, or nothing is said of mtf_compiled_part:\n{link.stdout}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
