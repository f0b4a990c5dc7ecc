#!/usr/bin/env python3
"""Checks that a file does not compile, and that the compiler then says what the file expects.

A case is one file with two halves:

    #ifdef MTF_CONTROL
      the correct twin, which must compile
    #else
      the mistake, which must not
    #endif

and these comments, plain text and no patterns:

    // EXPECT-ERROR: text     must be in what the compiler prints (at least one such line; all must appear)
    // REJECT-ERROR: text     must not be in it
    // FIRST-ERROR: text      must be in the first line that contains "error:"
    // MAX-LINES: 12          limits the lines that are not blank

What is judged is the output with the compiler's default flags, as a user meets it. Exit status: 0 the case holds,
1 it does not, 99 the case is broken (its twin does not compile, or it expects nothing), which Meson counts as an error.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import compile_flags  # noqa: E402

DIRECTIVE = re.compile(r"^\s*//\s*(EXPECT-ERROR|REJECT-ERROR|FIRST-ERROR|MAX-LINES):\s*(.*?)\s*$", re.MULTILINE)
BROKEN_CASE = 99


def add_compiler_options(parser):
    parser.add_argument("--db", required=True, help="compile_commands.json")
    parser.add_argument("--like", required=True, help="the file in it whose flags are taken")
    parser.add_argument("--compiler", help="default: the one in compile_commands.json")


def is_clang(compiler):
    return "clang" in Path(compiler).name


def compiler_command(options):
    """The compiler with the flags of every case, and the folder to run it in."""
    recorded, flags, folder = compile_flags.read(options.db, options.like)
    compiler = options.compiler or recorded
    flags = compile_flags.without_optimisation(compile_flags.without_warnings(flags))
    if is_clang(compiler):
        flags.append("-Wno-unused-command-line-argument")  # flags that were recorded for another compiler
    return [compiler, *flags], folder


def compile_half(command, folder, source, *defines):
    command = [*command, "-fsyntax-only", "-fno-diagnostics-color", *defines, str(source)]
    run = subprocess.run(command, cwd=folder, env=compile_flags.plain_environment(), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return run.returncode, run.stdout


def violations(expected, status, output):
    """The sentences that say how the bad half differs from what its comments promise."""
    if status == 0:
        return ["the mistake compiles"]
    lines = [line for line in output.splitlines() if line.strip()]
    first = next((line for line in lines if "error:" in line), "")
    found = []
    for kind, text in expected:
        if kind == "EXPECT-ERROR" and text not in output:
            found.append(f"not in the output: {text}")
        elif kind == "REJECT-ERROR" and text in output:
            found.append(f"must not be in the output: {text}")
        elif kind == "FIRST-ERROR" and text not in first:
            found.append(f"not in the first error line: {text}")
        elif kind == "MAX-LINES" and len(lines) > int(text):
            found.append(f"{len(lines)} lines of output, at most {text} were promised")
    return found


def main():
    parser = argparse.ArgumentParser(description="one compile-fail case with one compiler")
    parser.add_argument("source", type=Path)
    add_compiler_options(parser)
    parser.add_argument("--precompiled", help="what precompile.py made of the header of all cases")
    options = parser.parse_args()

    command, folder = compiler_command(options)
    if options.precompiled:
        # g++ is told of X.gch as X
        command += ["-include-pch", options.precompiled] if is_clang(command[0]) else ["-include", options.precompiled.removesuffix(".gch")]

    expected = DIRECTIVE.findall(options.source.read_text())
    if not any(kind in ("EXPECT-ERROR", "FIRST-ERROR") for kind, _ in expected):
        print(f"{options.source.name}: no EXPECT-ERROR line")
        return BROKEN_CASE
    if any(not text or (kind == "MAX-LINES" and not text.isdigit()) for kind, text in expected):
        print(f"{options.source.name}: a directive without its text or number")
        return BROKEN_CASE

    status, output = compile_half(command, folder, options.source, "-DMTF_CONTROL")
    if status != 0:
        print(f"{options.source.name}: the correct twin does not compile\n{output}")
        return BROKEN_CASE

    status, output = compile_half(command, folder, options.source)
    found = violations(expected, status, output)
    for sentence in found:
        print(f"{options.source.name}: {sentence}")
    print(output, end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
