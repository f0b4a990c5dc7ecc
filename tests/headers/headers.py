#!/usr/bin/env python3
"""Checks that each header compiles alone, twice in one file, and without a warning.

Headers of the model wing are compiled with stand-ins for mpi.h, Kokkos and CBLAS in the way that refuse to be included.
Prints each header that fails with what the compiler said.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
import check_layers  # noqa: E402
import compile_flags  # noqa: E402


def is_model_wing(name):
    return check_layers.layer(name) in (*check_layers.MODEL_WING, "core.hpp", "model.hpp")


def main():
    parser = argparse.ArgumentParser(description="each header alone, twice, and without a warning")
    parser.add_argument("--db", required=True, help="compile_commands.json")
    parser.add_argument("--like", required=True, help="the file in it whose flags are taken")
    parser.add_argument("--root", required=True, type=Path, help="the folder that holds mtf/")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", help="only these headers, as they are included")
    options = parser.parse_args()

    compiler, flags, folder = compile_flags.read(options.db, options.like)
    command = [compiler, *compile_flags.without_optimisation(flags), "-Werror", "-fsyntax-only",
               "-fno-diagnostics-color"]
    names = options.names or sorted(p.relative_to(options.root).as_posix() for p in options.root.glob("mtf/**/*.hpp"))

    with tempfile.TemporaryDirectory() as scratch:
        def compile_one(numbered):
            number, name = numbered
            source = Path(scratch) / f"{number}.cpp"
            source.write_text(f"#include <{name}>\n" * 2)
            stand_ins = ["-I", str(HERE / "no_machine")] if is_model_wing(name) else []
            start = time.monotonic()
            run = subprocess.run([command[0], *stand_ins, *command[1:], str(source)], cwd=folder,
                                 env=compile_flags.plain_environment(), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            return name, run.returncode, run.stdout, time.monotonic() - start

        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(compile_one, enumerate(names)))

    failed = [(name, output) for name, status, output, _ in results if status != 0]
    for name, output in failed:
        print(f"--- {name}\n{output}")
    slowest = max(results, key=lambda result: result[3], default=None)
    if slowest:
        print(f"slowest: {slowest[0]}, {slowest[3]:.1f} s")
    for name, _ in failed:
        print(f"FAILED {name}")
    print(f"{len(results) - len(failed)} headers compile alone, {len(failed)} do not")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
