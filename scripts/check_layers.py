#!/usr/bin/env python3
"""Checks that the headers keep to the layers: who may include whom, no cycles, no long headers.

usage: check_layers.py INCLUDE_FOLDER      (the folder that holds mtf/)
"""

import re
import sys
from pathlib import Path

MAX_LINES = 300

# Folder -> the folders of mtf it may include. The model wing knows no Kokkos and no MPI; the machine wing knows no dims.
MODEL_WING = ("core", "plan", "tensor", "ops", "nn", "optim")
ALLOWED = {
    "core": ("core",),
    "plan": ("core", "plan"),
    "tensor": ("core", "plan", "tensor"),
    "ops": ("core", "plan", "tensor", "ops"),
    "nn": MODEL_WING,
    "optim": MODEL_WING,
    "runtime": ("core", "plan", "runtime"),
    "kernels": ("core", "plan", "runtime", "kernels"),
    "world": ("core", "plan", "tensor", "runtime", "kernels", "world"),
    "io": (*MODEL_WING, "runtime", "kernels", "world", "io"),
    "testing": (*MODEL_WING, "runtime", "kernels", "world", "testing"),
}
# Headers beside the folders: each is an umbrella of what its name says, and the folders never include it.
UMBRELLAS = {"core.hpp": ("core",), "model.hpp": MODEL_WING, "compiled.hpp": tuple(ALLOWED), "compiled_forms.hpp": (), "mtf.hpp": tuple(ALLOWED),
             "testing.hpp": tuple(ALLOWED)}

# Library headers that cost every user too much, or that only one layer may know.
SLOW_IN_CORE = {"ranges", "algorithm", "string", "iostream"}
OUTSIDE = {  # first matching pattern decides
    r"mpi\.h": ("runtime",),
    r"Kokkos_.*": ("runtime", "kernels", "world", "io"),
    r"(cblas|cublas.*)\.h": ("kernels",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def layer(name):
    """The folder of mtf/FOLDER/file.hpp, or the file itself where there is no folder."""
    return name.split("/")[1]


def find_cycle(graph):
    """A list of headers that include each other in turn, or nothing."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node):], node]
        if node in done:
            return None
        path.append(node)
        for following in graph.get(node, ()):
            cycle = visit(following)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for start in sorted(graph):
        cycle = visit(start)
        if cycle:
            return cycle
    return None


def check(root):
    problems, graph, mpi_users = [], {}, []
    for path in sorted(root.glob("mtf/**/*.hpp")):
        name = path.relative_to(root).as_posix()
        here = layer(name)
        allowed = ALLOWED.get(here) or UMBRELLAS.get(here)
        if allowed is None:
            problems.append(f"{name}: the folder {here} is in no layer; see scripts/check_layers.py")
            continue
        lines = path.read_text().splitlines()
        if len(lines) > MAX_LINES:
            problems.append(f"{name}: {len(lines)} lines, at most {MAX_LINES} are read in one go")
        graph[name] = []
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            place = f"{name}:{number}"
            if target.startswith("mtf/"):
                graph[name].append(target)
                if not (root / target).is_file():
                    problems.append(f"{place}: {target} does not exist")
                # an umbrella may include smaller umbrellas, a folder none
                elif here in UMBRELLAS and layer(target) in UMBRELLAS:
                    if not set(UMBRELLAS[layer(target)]) <= set(allowed):
                        problems.append(f"{place}: {here} may not include {target}")
                elif layer(target) not in allowed:
                    problems.append(f"{place}: {here} may not include {target}, only {' '.join(allowed)}")
                continue
            if here == "core" and (target in SLOW_IN_CORE or "/" in target or "." in target):
                problems.append(f"{place}: core may not include <{target}>")
            for pattern, layers in OUTSIDE.items():
                if re.fullmatch(pattern, target):
                    if here not in layers:
                        problems.append(f"{place}: {here} may not include <{target}>, only {' '.join(layers)}")
                    elif target == "mpi.h":
                        mpi_users.append(name)
    if len(mpi_users) > 1:
        problems.append("mpi.h is included in more than one place: " + " ".join(mpi_users))
    cycle = find_cycle(graph)
    if cycle:
        problems.append("headers include each other: " + " -> ".join(cycle))
    if not graph:
        problems.append(f"no header under {root}/mtf")
    return problems, len(graph)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    problems, count = check(Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    print(f"{count} headers, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
