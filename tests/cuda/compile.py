#!/usr/bin/env python3
"""Compiles files for a GPU with nvcc: objects only, nothing is linked or run.

Flags are those of everybody who uses mtf_dep, with the headers of a Kokkos for CUDA in front. Memory and time are bounded:
what is written carelessly takes nvcc 21 GB. Exit status 77 (skipped) without nvcc.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import compile_flags  # noqa: E402

SKIPPED = 77
MEMORY = 6 << 30
SECONDS = 200  # of a processor, for each of the compilers that nvcc starts; three times that on the clock


def wanted(flags):
    """Include paths and macros; of the rest nvcc knows little."""
    found, words = [], iter(flags)
    for word in words:
        for option in ("-isystem", "-I", "-D"):
            if word.startswith(option):
                found += [option, word[len(option):] or next(words)]
                break
    return found


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def main():
    parser = argparse.ArgumentParser(description="files that nvcc must compile")
    parser.add_argument("--db", required=True, help="compile_commands.json")
    parser.add_argument("--like", required=True, help="the file in it whose flags are taken")
    parser.add_argument("--kokkos", required=True, help="what headers.py made")
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--define", action="append", default=[])
    parser.add_argument("sources", nargs="+", type=lambda name: Path(name).resolve())
    options = parser.parse_args()

    nvcc = options.nvcc or shutil.which("nvcc")
    if not nvcc:
        print("mtf: no nvcc was found, so whether the library compiles for a GPU is NOT TESTED")
        return SKIPPED
    _, flags, folder = compile_flags.read(options.db, options.like)
    command = [nvcc, "-x", "cu", "-std=c++20", "-O1", "-arch=sm_90", "--extended-lambda", "--expt-relaxed-constexpr",
               "-Werror", "cross-execution-space-call", "-Xcompiler", "-fopenmp", "-isystem", options.kokkos, *wanted(flags),
               *(f"-D{macro}" for macro in options.define)]
    failed = 0
    for source in options.sources:
        with tempfile.TemporaryDirectory() as scratch:
            start = time.monotonic()
            try:
                # In a session of its own, so that nvcc's children end with it.
                run = subprocess.Popen([*command, "-c", str(source), "-o", f"{scratch}/object.o"], cwd=folder, preexec_fn=limit,
                                       start_new_session=True, env=compile_flags.plain_environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, errors="replace")
                output, _ = run.communicate(timeout=3 * SECONDS)
                problem = "" if run.returncode == 0 else f"status {run.returncode}"
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, 9)
                output, _ = run.communicate()
                problem = f"not compiled after {3 * SECONDS} s"
            if not problem and not Path(f"{scratch}/object.o").stat().st_size:
                problem = "no object"
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{source.name}: {problem or 'compiled'}, {time.monotonic() - start:.0f} s, at most {memory:.0f} MB a process")
            if problem:
                failed += 1
                print("\n".join(output.splitlines()[:60]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
