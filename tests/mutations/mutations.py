#!/usr/bin/env python3
"""Small mistakes in the library, one at a time, and which tests find them.

    mutations.py                     builds once, runs all mutations, prints a table and "N of M found, property alone K"
    mutations.py --only NAME ...     only these
    mutations.py --suite SUITE ...   only these suites: property, unit, mpi, ends (default: all, in this order)
    mutations.py --list              prints the mutations
    mutations.py --check             checks that every mutation still applies to the sources; compiles nothing

The list is mutations.toml beside this file; it says what an entry holds. All mutations go into one build: a copy of the
sources in which each mutated place asks at run time whether it is the one that MTF_MUTANT names. First all suites must
pass without a mutation. Then each mutation is run suite by suite until one finds it: a test fails, the program crashes,
or it does not end in time. With --all the other suites run too. Results are kept in the build folder, and a second call
goes on where the first stopped; --again forgets them.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KINDS = ("expression", "statement", "patch")
SUITES = {  # in this order: targets to build, and runs as (what it is called, number of ranks, program, arguments)
    "property": (["tests/property_tests"], [(f"property on {n}", n, "tests/property_tests", []) for n in (4, 2, 1, 8)]),
    "unit": (["tests/unit_tests"], [("unit", 0, "tests/unit_tests", [])]),
    "mpi": (["tests/mpi_tests"], [(f"mpi on {n}", n, "tests/mpi_tests", []) for n in (4, 2, 1, 8)]),
    "ends": (["tests/mpi/abort/ends_program"], []),  # its runs are the cases in meson.build
}
# Left out: they take gradients in constant expressions, where no mutation runs, and where g++ 12 ends handles twice that it
# meets in the statements around a mutation.
LEFT_OUT = ("tests/unit/best_layout_test.cpp", "tests/unit/dry_run_test.cpp", "tests/mpi/best_layout_test.cpp")
HEADER = """// Made by tests/mutations/mutations.py.
#pragma once

#include <cstdlib>

namespace mtf_mutation {
inline const int chosen = [] {
  const char* text = std::getenv("MTF_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}();
/// Whether this mutation is the one that runs; none is in a constant expression.
constexpr bool is(int number) { return !__builtin_is_constant_evaluated() && chosen == number; }
}  // namespace mtf_mutation
"""


def read(path=HERE / "mutations.toml"):
    with open(path, "rb") as file:
        entries = tomllib.load(file)["mutation"]
    for number, entry in enumerate(entries, 1):
        entry["number"] = number
        entry["kind"] = next((kind for kind in KINDS if kind in entry), None)
    return entries


def place(entry, text):
    """Where the snippet of an entry begins in the text of its file; a ValueError says what is wrong."""
    begin = 0
    if "after" in entry:
        count = text.count(entry["after"])
        if count != 1:
            raise ValueError(f"`after` occurs {count} times")
        begin = text.index(entry["after"]) + len(entry["after"])
        at = text.find(entry[entry["kind"]][0], begin)
        if at < 0:
            raise ValueError("the snippet does not occur behind `after`")
        return at
    count = text.count(entry[entry["kind"]][0])
    if count != 1:
        raise ValueError(f"the snippet occurs {count} times")
    return text.index(entry[entry["kind"]][0])


def replacement(entry):
    original, mutant = entry[entry["kind"]]
    condition = f"::mtf_mutation::is({entry['number']})"
    if entry["kind"] == "expression":
        return f"({condition} ? ({mutant}) : ({original}))"
    if entry["kind"] == "statement":
        return f"{{ if ({condition}) {{ {mutant} }} else {{ {original} }} }}"
    return mutant


def check(entries, include):
    """What is wrong with the list, as lines."""
    problems, names, places = [], set(), {}
    for entry in entries:
        name = entry.get("name", "?")
        known = {"name", "what", "file", "after", "number", "kind", *KINDS}
        if name in names:
            problems.append(f"{name}: there is another of this name")
        names.add(name)
        if not {"name", "what", "file"} <= set(entry) or sum(kind in entry for kind in KINDS) != 1:
            problems.append(f"{name}: an entry has a name, what, file and one of {', '.join(KINDS)}")
            continue
        if not set(entry) <= known:
            problems.append(f"{name}: unknown {', '.join(sorted(set(entry) - known))}")
        path = include / entry["file"]
        if not path.is_file():
            problems.append(f"{name}: {entry['file']} does not exist")
            continue
        snippet = entry[entry["kind"]]
        if len(snippet) != 2 or snippet[0] == snippet[1]:
            problems.append(f"{name}: {entry['kind']} = [what is there, what is wrong]")
            continue
        try:
            at = place(entry, path.read_text())
        except ValueError as error:
            problems.append(f"{name}: {entry['file']}: {error}")
            continue
        if entry["kind"] != "patch":
            places.setdefault(entry["file"], []).append((at, at + len(snippet[0]), name))
    for found in places.values():
        found.sort()
        problems += [f"{b[2]}: overlaps with {a[2]}" for a, b in zip(found, found[1:]) if b[0] < a[1]]
    return problems


def rewrite(entries, include):
    """Puts these mutations into the sources."""
    for file in sorted({entry["file"] for entry in entries}):
        path = include / file
        text = path.read_text()
        here = sorted(((place(e, text), e) for e in entries if e["file"] == file), key=lambda found: -found[0])
        for at, entry in here:
            text = text[:at] + replacement(entry) + text[at + len(entry[entry["kind"]][0]):]
        path.write_text(text)
    if any(entry["kind"] != "patch" for entry in entries):
        (include / "core/mutation.hpp").write_text(HEADER)
        config = include / "core/config.hpp"
        text = config.read_text()
        config.write_text(text.replace("#pragma once\n", "#pragma once\n\n#include <mtf/core/mutation.hpp>\n", 1))


def copy_sources(to):
    """The files of the working tree that git knows, and new ones that it does not ignore."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    wanted = {name for name in listed if name and (ROOT / name).is_file()}
    for old in [p for p in to.rglob("*") if p.is_file()] if to.exists() else []:
        if old.relative_to(to).as_posix() not in wanted:
            old.unlink()
    for name in wanted:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        content = (ROOT / name).read_bytes()
        target = to / name
        if not target.exists() or target.read_bytes() != content:
            shutil.copy2(ROOT / name, target)


def prepare(entries, folder):
    """A tree with these mutations; only files that change are written, so that a second build is short."""
    fresh = folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    copy_sources(fresh)
    rewrite(entries, fresh / "include/mtf")
    for name in LEFT_OUT:
        (fresh / name).write_text("// Left out of the build with mutations.\n")
    tree = folder / "tree"
    for path in sorted(fresh.rglob("*")):
        if not path.is_file():
            continue
        target = tree / path.relative_to(fresh)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != path.read_bytes():
            shutil.copy2(path, target)
    for old in [p for p in tree.rglob("*") if p.is_file()]:
        if not (fresh / old.relative_to(tree)).exists():
            old.unlink()
    shutil.rmtree(fresh)
    return tree


def build(folder, tree, targets, options):
    """The folder of the build, or nothing if it fails."""
    out = folder / "build"
    if not (out / "build.ninja").exists():
        subprocess.run(["meson", "setup", out, tree, "-Dbuildtype=release", "-Doptimization=1", "-Db_ndebug=false",
                        "-Dwerror=false", "-Dtests=enabled", "-Dexamples=disabled", "-Dbench=disabled",
                        "-Ddocs=disabled"], check=True)
    done = subprocess.run(["ninja", "-k", "0", "-C", out, "-j", str(options.jobs), *targets], check=False)
    return out if done.returncode == 0 else None


def ends_cases(tree):
    """The cases of ends.py, as meson.build lists them."""
    text = (tree / "tests/mpi/abort/meson.build").read_text()
    begin = text.index("foreach case : [") + len("foreach case : [")
    return [word.strip().strip("'") for word in text[begin:text.index("]", begin)].replace("\n", " ").split(",")]


def runs_of(suite, tree):
    if suite == "ends":
        return [(f"ends_{case}", -1, "tests/mpi/abort/ends_program", [case, "4"]) for case in ends_cases(tree)]
    return SUITES[suite][1]


def environment(options, mutant):
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false", OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                     PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", KOKKOS_DISABLE_WARNINGS="1",
                     MTF_PROPERTY_CASES=str(options.cases), MTF_MUTANT=str(mutant))
    return variables


def run(one, out, tree, options, mutant, seconds):
    """(whether it passed, what happened, seconds it took)"""
    _, ranks, program, arguments = one
    program = str(out / program)
    launcher = shutil.which("mpiexec.openmpi") or shutil.which("mpiexec") or "mpiexec"
    if ranks > 0:
        command = [launcher, "-n", str(ranks), program, *arguments]
    elif ranks == 0:
        command = [program, *arguments]
    else:
        command = [sys.executable, str(tree / "tests/mpi/abort/ends.py"), launcher, program, *arguments]
    variables = environment(options, mutant)
    variables["MPIEXEC_TIMEOUT"] = str(int(seconds))
    begin = time.monotonic()
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=seconds + 20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, "time-out", time.monotonic() - begin
    took = time.monotonic() - begin
    if process.returncode == 0:
        return True, "passed", took
    lines = output.decode(errors="replace").splitlines()
    cases = [line for line in lines if "TEST CASE:" in line]
    what = cases[0].split("TEST CASE:")[1] if cases else next((l for l in lines if l.strip()), "")
    for code in ("\x1b[0m", "\x1b[0;33m"):
        what = what.replace(code, "")
    kind = "time-out" if took >= seconds else "failed" if cases else f"ended with {process.returncode}"
    return False, f"{kind}: {what.strip()[:150]}", took


def measure(entry, out, tree, options, budget, results):
    """Runs the suites on one mutation and keeps what they find."""
    mine = results.setdefault(entry["name"], {})
    found = any(result["found"] for result in mine.values())
    for suite in options.suite:
        if suite in mine or (found and not options.all):
            continue
        result = {"found": False, "run": "", "what": "", "seconds": 0.0}
        for one in runs_of(suite, tree):
            number = 0 if entry["kind"] == "patch" else entry["number"]
            passed, what, took = run(one, out, tree, options, number, budget[one[0]])
            result["seconds"] += took
            if not passed:
                result.update(found=True, run=one[0], what=what)
                break
        mine[suite] = result
        found = found or result["found"]
        print(f"{entry['name']}: {suite} {'finds it' if result['found'] else 'does not find it'}"
              f"{' (' + result['run'] + ', ' + result['what'] + ')' if result['found'] else ''}, "
              f"{result['seconds']:.0f} s", flush=True)


def baseline(out, tree, options, folder):
    """Seconds that each run may take: what it takes without a mutation, and much more. Nothing if one fails."""
    path = folder / "baseline.json"
    budget = json.loads(path.read_text()) if path.exists() and not options.again else {}
    for suite in options.suite:
        for one in runs_of(suite, tree):
            if one[0] in budget:
                continue
            passed, what, took = run(one, out, tree, options, 0, options.seconds)
            if not passed:
                print(f"without any mutation {one[0]} does not pass: {what}")
                return None
            budget[one[0]] = min(options.seconds, 30 + 4 * took)
            print(f"without a mutation {one[0]} takes {took:.0f} s", flush=True)
            path.write_text(json.dumps(budget))
    return budget


def table(entries, results, suites):
    width = max(len(entry["name"]) for entry in entries)
    print("\n" + "mutation".ljust(width), *(suite.ljust(9) for suite in suites), "found by")
    for entry in entries:
        mine = results.get(entry["name"], {})
        words = ["" if s not in mine else "found" if mine[s]["found"] else "-" for s in suites]
        first = next((mine[s] for s in suites if s in mine and mine[s]["found"]), None)
        print(entry["name"].ljust(width), *(word.ljust(9) for word in words),
              f"{first['run']}: {first['what']}" if first else "NOTHING")
    found = [e for e in entries if any(r["found"] for r in results.get(e["name"], {}).values())]
    alone = [e for e in entries if results.get(e["name"], {}).get("property", {}).get("found")]
    print(f"\n{len(found)} of {len(entries)} found, property alone {len(alone)}")
    return len(found) == len(entries)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these mutations")
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES), help="only these suites")
    parser.add_argument("--list", action="store_true", help="print the mutations")
    parser.add_argument("--check", action="store_true", help="check that every mutation applies")
    parser.add_argument("--all", action="store_true", help="run the other suites, too, when one has found it")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    parser.add_argument("--cases", type=int, default=1000, help="random programs of the property tests")
    parser.add_argument("--seconds", type=int, default=600, help="longest run of one program")
    parser.add_argument("--build", type=Path, default=ROOT / "build-mutations", help="the build folder")
    parser.add_argument("--include", type=Path, default=ROOT / "include/mtf", help="the sources that --check reads")
    options = parser.parse_args()
    entries = read()

    if options.list:
        for entry in entries:
            print(f"{entry['name']} ({entry['file']}): {entry['what']}")
        return 0
    problems = check(entries, options.include)
    for problem in problems:
        print(problem)
    if options.check or problems:
        print(f"{len(entries)} mutations, {len(problems)} problems")
        return 1 if problems else 0

    unknown = set(options.only or ()) - {entry["name"] for entry in entries}
    if unknown:
        parser.error(f"no mutation is called {', '.join(sorted(unknown))}")
    wanted = [entry for entry in entries if not options.only or entry["name"] in options.only]
    folder = options.build.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() and not options.again else {}
    targets = [target for suite in options.suite for target in SUITES[suite][0]]

    schemata = [entry for entry in entries if entry["kind"] != "patch"]
    tree = prepare(schemata, folder)
    out = build(folder, tree, targets, options)
    if out is None:
        print("the build with all mutations fails; see above")
        return 1
    budget = baseline(out, tree, options, folder)
    if budget is None:
        return 1
    for entry in wanted:
        if options.again:
            results.pop(entry["name"], None)
        if entry["kind"] == "patch":
            own = folder / "own" / entry["name"]
            own.mkdir(parents=True, exist_ok=True)
            own_tree = prepare([entry], own)
            own_out = build(own, own_tree, targets, options)
            if own_out is None:
                results[entry["name"]] = {"build": {"found": True, "run": "build", "what": "does not compile", "seconds": 0}}
                continue
            measure(entry, own_out, own_tree, options, budget, results)
        else:
            measure(entry, out, tree, options, budget, results)
        kept.write_text(json.dumps(results, indent=1))
    return 0 if table(wanted, results, options.suite) else 1


if __name__ == "__main__":
    sys.exit(main())
