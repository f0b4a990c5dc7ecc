#!/usr/bin/env python3
"""Measures what files cost to compile at -O2, as ratios to a file that only includes Kokkos.

Each file may be followed by the most that --gate allows, FILE:RATIO:MEGABYTES, and preceded by a macro that is to be
defined, MACRO=FILE. The files are compiled in turn, several times over, so that a change of the machine's speed meets
all of them alike; medians are printed. Time is the processor time of the compiler (user), memory its peak.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import compile_flags  # noqa: E402


def cost(command, folder):
    """(user seconds, peak megabytes) of one compiler run, its sub-processes included."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit(f"does not compile: {' '.join(command)}")
    return usage.ru_utime, usage.ru_maxrss / 1024


def parse(argument):
    """((path, macro or nothing), limits) of [MACRO=]FILE[:RATIO[:MEGABYTES]]."""
    name, *limits = argument.split(":")
    macro, _, path = name.rpartition("=")
    return (Path(path).resolve(), macro), [float(limit) for limit in limits]


def label(file):
    path, macro = file
    return "/".join(path.parts[-2:]) + (f" with {macro}" if macro else "")


def main():
    parser = argparse.ArgumentParser(description="compile time as a ratio to Kokkos alone")
    parser.add_argument("--db", required=True, help="compile_commands.json")
    parser.add_argument("--base", required=True, type=Path, help="the unit; its flags are taken for all files")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="fail when a file is above its limits")
    parser.add_argument("files", nargs="+", metavar="[MACRO=]FILE[:RATIO[:MEGABYTES]]")
    options = parser.parse_args()

    compiler, flags, folder = compile_flags.read(options.db, options.base)
    command = [compiler, *compile_flags.without_optimisation(flags), "-O2", "-c", "-o", os.devnull]
    base = (options.base.resolve(), "")
    files = [(base, [])] + [parse(argument) for argument in options.files]
    runs = {file: [] for file, _ in files}
    for _ in range(options.runs):
        for (path, macro), _ in files:
            define = [f"-D{macro}"] if macro else []
            runs[path, macro].append(cost([*command, *define, str(path)], folder))

    def median(file, index):
        return statistics.median(run[index] for run in runs[file])

    unit = median(base, 0)
    width = max(len(label(file)) for file, _ in files)
    failed = 0
    print(f"{'file':{width}}  user s   ratio  peak MB")
    for file, limits in files:
        ratio, memory = median(file, 0) / unit, median(file, 1)
        above = any(value > limit for value, limit in zip((ratio, memory), limits))
        failed += above
        allowed = f"   at most {' and '.join(f'{limit:g}' for limit in limits)}" if limits else ""
        print(f"{label(file):{width}}  {median(file, 0):6.2f}  {ratio:6.2f}  {memory:7.0f}{allowed}{': ABOVE' if above else ''}")
    return 1 if options.gate and failed else 0


if __name__ == "__main__":
    sys.exit(main())
