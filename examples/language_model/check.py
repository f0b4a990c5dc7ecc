#!/usr/bin/env python3
"""check.py CASE FOLDER PROJECT PROGRAM MPIEXEC - runs the language model as its users do, and reads what it prints.

CASE is "layouts", "mistakes", "numbers", "files", "automatic" or "help". The text to train on is the project's own documentation, put together in
FOLDER.
"""
import json
import os
import re
import shutil
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
    """What the program says; 0 ranks: one, without the launcher, which takes most of the time."""
    command = [*([mpiexec, "-n", str(ranks)] if ranks > 0 else []), program, *arguments]
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
    # A text with line breaks is one; what is odd in it is named.
    expect(run([*SMALL, "--layout", "batch:rows;\n d_ff=cols"]), '"d_ff=cols": the text of a layout',
           'reading stops before "=", character 18', once="mtf: ")
    # A misspelt dim trains, and one line says so.
    misspelt = run([*SMALL, "--mesh", "rows:2;cols:1", "--layout", "bacth:rows;d_ff:cols"])
    if misspelt.returncode != 0 or misspelt.all.count('"bacth" (did you mean "batch"?)') != 1 or misspelt.all.count("mtf: ") != 1:
        fail("a misspelt dim", misspelt)


def small(arguments):
    """The arguments, with those of SMALL that they do not replace."""
    kept = [(name, value) for name, value in zip(SMALL[::2], SMALL[1::2]) if name not in arguments]
    return [*(word for pair in kept for word in pair), *arguments]


def refused(arguments, sentence, ranks=2):
    """A run that must end before training, with this as its only line of ours."""
    done = run(small(arguments), ranks)
    expect(done, sentence, once="mtf: ")
    lines = [line for line in done.all.splitlines() if "mtf: " in line]
    if len(lines[0]) > 400 or "trained" in done.all or "parameters, mesh" in done.all:
        fail("a long line, or training has begun", done)


def numbers():
    """Every option that takes a number refuses what is none, what is out of range, and what other notations have."""
    whole = {"--steps": 1, "--warmup": 0, "--batch": 1, "--length": 1, "--d-model": 1, "--layers": 1, "--heads": 1,
             "--d-kv": 1, "--d-ff": 1, "--seed": 0, "--generate": 0, "--trace-after": 0, "--trace-steps": 1}
    fractions = ["--minutes", "--learning-rate", "--embedding-stddev", "--dropout", "--temperature"]
    if set(re.findall(r"^  (--[a-z-]+) (?:INT|FLOAT)", run(["--help"], 1).all, re.MULTILINE)) != {*whole, *fractions}:
        sys.exit("the options that take numbers are others")
    tried = ["nan", "-1", "99999999999999999999", "", "0x10", "1e400", "3x", " 3", "inf", "1,5"]
    # The same function reads them all; every option is tried with some of what is wrong.
    for place, option in enumerate([*whole, *fractions]):
        trace = ["--trace", str(Path(folder) / "unwritten.json")] if option.startswith("--trace") else []
        for value in {tried[place % 10], tried[(place + 5) % 10], *({"nan"} if option == "--minutes" else {})}:
            kind = "a whole number" if option in whole else "a number"
            refused([*trace, option, value], f'{option}: "{value}" is not {kind} ', ranks=0)
        if whole.get(option) == 1:
            refused([*trace, option, "0"], f'{option}: "0" is not a whole number from 1 to ', ranks=0)
    refused(["--steps", "99999999999999999999"], '--steps: "99999999999999999999" is not a whole number from 1 to 2147483647')
    refused(["--steps", "2.5"], '--steps: "2.5" is not a whole number from 1 to 2147483647')
    refused(["--dropout", "1"], '--dropout: "1" is not a number from 0 to 0.99')
    for option in ["--text", "--layout", "--mesh", "--machine", "--trace"]:
        refused([option, ""], f"{option}: it is empty", ranks=0)
    # Not octal.
    if "step    10/10 " not in run(small(["--steps", "010", "--generate", "0"]), 1).all:
        sys.exit("--steps 010 is not 10")


def files():
    """What cannot be read or written, and what asks for nothing, is said before training."""
    here = Path(folder) / "files_of_check"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    missing, empty, short, pipe = here / "missing", here / "empty", here / "short", here / "pipe"
    empty.write_bytes(b"")
    short.write_bytes(b"0123456789abcdef0")
    os.mkfifo(pipe)
    for path, why in [(missing, "No such file or directory"), (here, "it is a directory"), (here / "a\nb", "No such file or directory"),
                      (pipe, "it is a pipe that nobody writes to; start the writer first"), ("/dev/null", "it is neither a file nor a pipe")]:
        shown = str(path).replace("\n", "\\n")
        refused(["--text", str(path)], f'cannot read "{shown}": {why}')
    refused(["--text", str(empty)], f'"{empty}" is empty')
    expect(run(small(["--text", str(short)])), f'"{short}" is too short: of its 17 bytes 16 are for training', once="mtf: ")
    # A pipe with a writer is a text.
    writer = subprocess.Popen(["cat", str(TEXT)], stdout=subprocess.PIPE)
    done = subprocess.run([mpiexec, "-n", "1", program, *small(["--text", f"/proc/{os.getpid()}/fd/{writer.stdout.fileno()}"])],
                          stdin=subprocess.DEVNULL, capture_output=True)
    writer.stdout.close()
    writer.wait()
    if done.returncode != 0 or b"40000 bytes of text" not in done.stdout:
        fail("a pipe", done)

    for path, why in [(here, "Is a directory"), (missing / "trace", "No such file or directory"), (pipe, "it is a pipe that nobody reads")]:
        refused(["--trace", str(path), "--trace-after", "1"], f'cannot write "{path}": {why}')
    trace = str(here / "trace.json")
    refused(["--trace", trace], f"--trace: the trace is to begin after step 5, but there are {STEPS} steps")
    refused(["--trace", trace, "--trace-after", "1", "--trace-steps", "3"],
            f"--trace: 3 steps are to be traced after the first 1, but there are {STEPS} steps")
    refused(["--trace-after", "1"], "--trace-after requires --trace")
    refused(["--machine", str(TEXT)], "--machine requires --layout")
    refused(["--machine", str(TEXT), "--layout", "data"], "--machine: only --layout auto asks")
    if Path(trace).exists():
        sys.exit("a trace was left by a run that did not begin")
    for path, why in [(here, f'cannot read "{here}": it is a directory'), (TEXT, f'machine "{TEXT}": the file is not JSON')]:
        refused(["--machine", str(path), "--layout", "auto"], why)
    done = run([*SMALL, "--trace", trace, "--trace-after", "2"])
    if done.returncode != 0 or f"trace of 1 step in {trace}" not in done.all or "before the 3 that were asked for" not in done.all:
        fail("a trace that ends early", done)
    json.loads(Path(trace).read_text(encoding="utf-8"))


def automatic():
    """--layout auto on numbers of ranks that divide nothing says so."""
    for ranks in [3, 4, 5, 7]:
        done = run(small(["--layout", "auto", "--generate", "0", "--steps", "1"]), ranks)
        if done.returncode != 0:
            fail(f"exit status {done.returncode}", done)
        nothing = f"note: nothing is split: each of the {ranks} processors holds everything and does all the work"
        undivided = f'note: axis "rows" of size {ranks} splits nothing: it does not divide the extents of '
        wanted = 0 if ranks == 4 else 1
        if wanted and (done.all.count(nothing) != 1 or done.all.count(undivided) != 1 or '"batch" (8' not in done.all):
            fail("nothing is said of what is not split", done)


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
{"layouts": layouts, "mistakes": mistakes, "help": shows_help, "numbers": numbers, "files": files, "automatic": automatic}[case]()
