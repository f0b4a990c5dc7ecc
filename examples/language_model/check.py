#!/usr/bin/env python3
"""check.py CASE FOLDER PROJECT PROGRAM MPIEXEC - runs the language model as its users do, and reads what it prints.

CASE is "layouts", "mistakes" or "help". The text to train on is the project's own documentation, put together in
FOLDER.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

case, folder, project, program, mpiexec = sys.argv[1:]
TEXT = Path(folder) / f"text_{case}.txt"  # cases may run at once
STEPS, GENERATED = 3, 20
SMALL = ["--text", str(TEXT), "--steps", str(STEPS), "--warmup", "2", "--generate", str(GENERATED), "--batch", "8",
         "--length", "16", "--d-model", "16", "--heads", "4", "--d-kv", "4", "--d-ff", "32", "--layers", "1"]


def fail(why, shown):
    sys.exit(f"{why}\n--- standard output\n{shown.stdout.decode(errors='replace')}"
             f"\n--- standard error\n{shown.stderr.decode(errors='replace')}")


def run(arguments, ranks=2):
    command = [mpiexec, "-n", str(ranks), program, *arguments]
    print("$", *command, flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, "MTF_TERMINAL": "0"})
    done.all = (done.stdout + done.stderr).decode(errors="replace")
    return done


def train(arguments, ranks, axes):
    """A run that must end well; its loss after the first and the last step, and its bits per byte."""
    done = run([*SMALL, *arguments], ranks)
    if done.returncode != 0:
        fail(f"exit status {done.returncode}", done)
    text = done.stdout.decode(errors="replace")

    def found(pattern):
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            fail(f"no line {pattern}", done)
        return match

    found(rf"^trained {STEPS} steps in [0-9.]+ s$")
    sizes = found(r"^bits per byte: ([0-9.]+) held out \(gzip -9: ([0-9.]+), xz -9: ([0-9.]+) over the whole file\)$")
    held_out, gzip, xz = map(float, sizes.groups())
    # A model that knows nothing needs 8 bits a byte, and a new one guesses a little worse; prose compresses to 2 to 4.
    if not (2 < held_out < 9 and 1 < gzip < 5 and 1 < xz < 5):
        fail("bits per byte out of range", done)
    part = found(r"^communication of training\n((?:  .*\n)*)peak memory\n((?:  .*\n)*)")
    sent = re.findall(r"^  ([a-z+]+): ([0-9.]+) MB sent per rank in ([0-9]+) collectives$", part[1], re.MULTILINE)
    if sorted(name for name, _, _ in sent) != sorted(axes) or (not axes and part[1] != "  none\n"):
        fail(f"communication not over {axes or 'no axis'}", done)
    if any(int(count) < STEPS for _, _, count in sent):
        fail("fewer collectives than steps", done)
    memory = re.findall(r"^  rank ([0-9]+): ([0-9.]+) MB in tensors, ([0-9.]+) MB in all$", part[2], re.MULTILINE)
    if [int(rank) for rank, _, _ in memory] != list(range(ranks)) or any(
            not 0 < float(tensors) < float(process) for _, tensors, process in memory):
        fail("memory of a rank is missing or out of range", done)
    # The last thing printed: as many bytes as were asked for.
    if not re.search(rb'^generated after "', done.stdout, re.MULTILINE) or \
            done.stdout[-GENERATED - 4:-GENERATED - 1] != b'":\n' or not done.stdout.endswith(b"\n"):
        fail(f"not {GENERATED} bytes generated", done)
    steps = {int(step): float(loss) for step, loss in re.findall(rf"^step +([0-9]+)/{STEPS}  loss ([0-9.]+) ", text, re.MULTILINE)}
    if not {1, STEPS} <= steps.keys():
        fail("the loss of the first or the last step is missing", done)
    return steps[1], steps[STEPS], held_out


def layouts():
    """Every layout is the same program: the losses agree up to the rounding of sums."""
    results = {}
    for name, arguments, ranks, axes in [
            ("single", ["--layout", "single"], 2, []),
            ("data", ["--layout", "data"], 2, ["rows"]),
            ("model", ["--layout", "model"], 2, ["cols"]),
            ("grid", ["--layout", "grid", "--mesh", "rows:1;cols:2"], 2, ["cols"]),
            ("grid of 4", ["--layout", "grid"], 4, ["cols", "rows"]),
            ("text", ["--layout", "batch:rows;d_ff:cols;planes:depth?", "--mesh", "rows:2;cols:1"], 2, ["rows"])]:
        results[name] = train(arguments, ranks, axes)
        print(f"{name}: loss {results[name][0]}, {results[name][1]}; {results[name][2]} bits per byte", flush=True)
    first = results["single"]
    if not first[1] < first[0]:
        sys.exit("the loss does not fall")
    for name, values in results.items():
        if any(abs(a - b) > 1e-3 for a, b in zip(first, values)):
            sys.exit(f"layout {name} computes {values}, single {first}")


def expect(done, *sentences, once):
    """A run that must fail, say all of this, and say `once` once: one rank speaks."""
    if done.returncode == 0:
        fail("exit status 0", done)
    for sentence in sentences:
        if done.all.count(sentence) != 1:
            fail(f'"{sentence}" is there {done.all.count(sentence)} times', done)
    if done.all.count(once) != 1:
        fail(f'"{once}" is there {done.all.count(once)} times', done)


def mistakes():
    # What cannot be read, what names nothing, what is said twice: before a world exists.
    expect(run([*SMALL, "--layout", "batch:rows;batch:cols;d_ff:planes;heads"]), '"heads": the text of a layout',
           'dim "batch": two layout rules', 'rule for dim "d_ff", axis "planes"', once="mtf: ")
    # What breaks a rule in some operation of the model: all of it, not the first.
    expect(run([*SMALL, "--mesh", "rows:1;cols:2", "--layout", "batch:cols;length:cols;d_ff:rows;d_model:rows"]),
           'dims "batch" and "length" are both split over axis "cols"',
           'dims "d_model" and "d_ff" are both split over axis "rows"', once="mtf: ")
    unknown = run([*SMALL, "--nonsense"])
    expect(unknown, "not expected: --nonsense", once="--nonsense")
    missing = str(Path(folder) / "no_such_file.txt")
    expect(run(["--text", missing, "--steps", "1"]), f'cannot read "{missing}": No such file', once="mtf: ")


def shows_help():
    """One rank prints the program's own help, and nothing comes before it."""
    done = run(["--help"])
    if done.returncode != 0:
        fail(f"exit status {done.returncode}", done)
    if not done.stdout.startswith(b"Trains a byte-level Transformer language model"):
        fail("does not begin with the program's help", done)
    if done.all.count("Trains a byte-level") != 1:
        fail("printed by more than one rank", done)
    for option in ["--text", "--layout", "--mesh", "--steps", "--minutes", "--generate"]:
        if f"{option} " not in done.stdout.decode():
            fail(f"{option} is not explained", done)
    # The script around it answers before it installs or builds anything, wherever the option stands.
    script = Path(project, "scripts", "demo")
    told = subprocess.run([script, "--steps", "1", "--help"], capture_output=True, cwd=folder)
    told.all = told.stdout.decode()
    if told.returncode != 0 or "--ranks N" not in told.all or told.stderr:
        fail("scripts/demo --help", told)
    refused = subprocess.run([script, "--steps", "1", "--ranks", "many"], capture_output=True, cwd=folder)
    if refused.returncode == 0 or refused.stderr != b"mtf: --ranks wants a number\n":
        fail("scripts/demo --ranks many", refused)


TEXT.write_bytes(b"".join(page.read_bytes() for page in sorted(Path(project, "docs").glob("*.md")))[:40000])
{"layouts": layouts, "mistakes": mistakes, "help": shows_help}[case]()
