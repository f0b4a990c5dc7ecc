#!/usr/bin/env python3
"""Checks that a compiler that is too old is refused with one line that says what to install.

The new compilers here say that they are old; a real old one (clang 14 is what Debian 12 calls clang) is tried too where it
is given, and configuring with it must end the same way.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# What follows the header would be the next error.
PROGRAM = "#include <mtf/core/config.hpp>\nint x = not_declared;\nunknown y;\n"
WORDS = ("mtf: ", "lacks parts of C++20; install ", "g++ >= 12", "clang >= 16", "Debian 12: ")


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description="compilers that are too old are refused with one line")
    parser.add_argument("include", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("new", nargs="+")
    parser.add_argument("--old", nargs="*", default=[])
    parser.add_argument("--meson", default="meson")
    options = parser.parse_args()
    problems = []

    def check(name, status, output, most_errors=1):
        errors = [line for line in output.splitlines() if "error:" in line or "ERROR:" in line]
        first = errors[0] if errors else ""
        if status == 0 or len(errors) > most_errors or not all(word in first for word in WORDS):
            problems.append(f"--- {name}, status {status}\n{output}")

    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "program.cpp"
        source.write_text(PROGRAM)
        environment = dict(os.environ, LC_ALL="C")
        for compiler in [*options.new, *options.old]:
            clang = "clang" in Path(compiler).name
            macro, version = ("__clang_major__", 15) if clang else ("__GNUC__", 11)
            pretend = [] if compiler in options.old else [f"-U{macro}", f"-D{macro}={version}"]
            for flags in (["-I"], ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"], ["-w", "-isystem"]):
                command = [compiler, "-std=c++20", "-fsyntax-only", *pretend, *flags, options.include, source]
                # g++, and clang without warnings, say after the sentence that a file is missing, and end there.
                check(" ".join(map(str, command)), *run(*command, env=environment), most_errors=1 if clang and "-w" not in flags else 2)
        for compiler in options.old:
            folder = Path(scratch) / "build"
            check(f"meson setup with {compiler}", *run(*options.meson.split(), "setup", folder, options.source, env=dict(environment, CXX=compiler)))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
