#!/usr/bin/env python3
"""Checks the compile-fail runner itself: each file here has a fault that the runner must notice, or none.

A mistake in the use of the library must also print as many lines with a precompiled header as without, which is what a user sees.

usage: self_test.py RUNNER [options of the runner] --precompiled FILE
"""

import subprocess
import sys
from pathlib import Path

# file -> (exit status, words that the runner must print)
EXPECTED = {
    "holds": (0, ""),
    "mistake_compiles": (1, "the mistake compiles"),
    "other_words": (1, "not in the output: words that no compiler prints"),
    "rejected_words": (1, "must not be in the output"),
    "first_line": (1, "not in the first error line"),
    "too_long": (1, "lines of output, at most 1 were promised"),
    "twin_broken": (99, "the correct twin does not compile"),
    "expects_nothing": (99, "no EXPECT-ERROR line"),
}


def run_case(source, options):
    run = subprocess.run([sys.argv[1], str(source), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.returncode, run.stdout


def main():
    here = Path(__file__).resolve().parent
    wrong = 0
    if {path.stem for path in here.glob("*.cpp")} != set(EXPECTED):
        print("the files here are not the ones that this test knows")
        wrong += 1
    for name, (status, words) in EXPECTED.items():
        ended, output = run_case(here / f"{name}.cpp", sys.argv[2:])
        if ended != status or words not in output:
            print(f"{name}: exit {ended}, expected {status} and the words '{words}':\n{output}")
            wrong += 1
    if sys.argv[-2] != "--precompiled":
        print("the last option must be --precompiled FILE")
        return 1
    mistake = here.parent / "axis_twice_in_einsum.cpp"
    (_, shown), (_, output) = run_case(mistake, sys.argv[2:-2]), run_case(mistake, sys.argv[2:])
    if len(shown.splitlines()) != len(output.splitlines()):
        print(f"{mistake.name}: without a precompiled header\n{shown}and with it\n{output}")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
