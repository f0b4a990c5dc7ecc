#!/usr/bin/env python3
"""Measures what evaluating a training step in a constant expression costs.

With g++: the processor time that 1, 6 and 24 Transformer layers add to a file. With clang: the statements that its evaluator counts (its
-fconstexpr-steps), for the model per planned operation and for single operations, found by bisection. Without a clang that part is left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 1 << 20  # clang's own

# name, the statement, whether its gradient is taken too
OPERATIONS = [
    ("map", "(void)mtf::relu(x)", 0),
    ("add", "(void)(x + y)", 0),
    ("einsum", "(void)(mtf::einsum<B, K>(x, w))", 0),
    ("reduce_mean", "(void)(mtf::reduce_mean<H>(x))", 0),
    ("rename", "(void)(mtf::rename<K, K2>(w))", 0),
    ("softmax", "(void)(mtf::softmax<K>(w))", 0),
    ("map and its gradient", "z = mtf::relu(z)", 1),
    ("add and its gradient", "z = z + y", 1),
    ("variable", "(void)(mtf::variable<float, B, H>(world, scope / i, mtf::init::zeros))", 0),
]


def user_seconds(command):
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit(f"does not compile: {' '.join(map(str, command))}")
    return usage.ru_utime


def compiles(command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def steps(command, tolerance):
    """The smallest limit of steps with which the command compiles, up to the tolerance."""
    low, high = 0, 2 * LIMIT
    if not compiles([*command, f"-fconstexpr-steps={high}"]):
        raise SystemExit(f"does not compile within {high} steps: {' '.join(map(str, command))}")
    while high - low > tolerance:
        middle = (low + high) // 2
        if compiles([*command, f"-fconstexpr-steps={middle}"]):
            high = middle
        else:
            low = middle
    return high


def operations(gxx, include, layers, folder):
    program = folder / "operations"
    subprocess.run([*gxx, "-I", include, f"-DLAYERS={layers}", HERE / "model.cpp", "-o", program], check=True)
    return int(subprocess.run([program], capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description="cost of evaluating a training step in a constant expression")
    parser.add_argument("--include", required=True, type=Path, help="the folder that holds mtf/")
    parser.add_argument("--gxx", default="g++")
    parser.add_argument("--clang", default="", help="clang++, if there is one")
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 6, 24])
    options = parser.parse_args()
    gxx = [options.gxx, "-std=c++20"]

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        counts = {layers: operations(gxx, options.include, layers, folder) for layers in options.layers}
        syntax = [*gxx, "-I", options.include, "-fsyntax-only", HERE / "model.cpp"]
        base = user_seconds(syntax)
        print(f"g++: {base:.2f} s without the evaluation")
        for layers, count in counts.items():
            print(f"  {layers:3} layers, {count:5} operations: {user_seconds([*syntax, f'-DLAYERS={layers}']) - base:+6.2f} s", flush=True)
        if not options.clang:
            print("clang: not found, its steps are not counted")
            return 0
        header = folder / "model.pch"
        subprocess.run([options.clang, "-std=c++20", "-I", options.include, "-x", "c++-header", options.include / "mtf/model.hpp", "-o", header], check=True)
        clang = [options.clang, "-std=c++20", "-I", options.include, "-include-pch", header, "-fsyntax-only"]
        print(f"clang: steps, of which it allows {LIMIT} by default")
        for layers, count in counts.items():
            found = steps([*clang, f"-DLAYERS={layers}", HERE / "model.cpp"], 1000)
            print(f"  {layers:3} layers: {found:8}, {found / count:6.0f} for each operation", flush=True)
        for name, statement, gradient in OPERATIONS:
            command = [*clang, f"-DOPERATION={statement}", f"-DGRADIENT={gradient}", HERE / "operation.cpp"]
            few, many = (steps([*command, f"-DCOUNT={count}"], 20) for count in (2, 12))
            print(f"  {name:20}: {(many - few) / 10:6.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
