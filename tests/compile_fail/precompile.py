#!/usr/bin/env python3
"""Precompiles what the cases include, once for all of them: they spend five sixths of their time on it otherwise.

Writes the file that expect_fail.py takes as --precompiled, and a dependency file for the build.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import expect_fail


def main():
    parser = argparse.ArgumentParser(description="the precompiled header of the compile-fail cases")
    expect_fail.add_compiler_options(parser)
    parser.add_argument("header", type=Path)
    parser.add_argument("output")
    parser.add_argument("depfile")
    options = parser.parse_args()

    command, folder = expect_fail.compiler_command(options)
    command += ["-x", "c++-header", str(options.header), "-o", options.output, "-MD", "-MT", options.output, "-MF", options.depfile]
    return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
