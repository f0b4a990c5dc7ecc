"""Starts a program on four ranks and checks how the job ends.

ends.py MPIEXEC PROGRAM CASE: exit status, and the lines on stderr that begin with "mtf:". A job that does not end by
itself fails.
"""
import re
import subprocess
import sys

PLACES = ["rank 0 (rows=0, cols=0)", "rank 1 (rows=0, cols=1)", "rank 2 (rows=1, cols=0)", "rank 3 (rows=1, cols=1)"]


def line(rank, message):
    return [re.escape(f"mtf: {PLACES[rank]}: ") + message]


NO_DIM = "a rule of the layout splits nothing, because no tensor has its dim: "
MISSPELT = NO_DIM + r'"bacth" \(did you mean "batch"\?\)'
WARNED = ["mtf: warning: " + MISSPELT + "; WorldOptions::unused_rules .*"]
GIVEN = "from_global: 3 elements given for dims .*"
# Exit status (None: anything but 0) and the lines, as patterns (None: anything).
CASES = {
    "rules_types": (0, WARNED),
    "rules_step": (0, WARNED),
    "rules_end": (0, ["mtf: warning: rules of the layout split nothing, because no tensor has their dims: "
                      r'"hiden" \(did you mean "hidden"\?\), "planes" \(the nearest name is "[a-z]+"\); .*']),
    "rules_none": (0, []),
    "rules_caught": (0, []),
    "rules_error": (None, line(0, "layout: " + MISSPELT)),
    "rules_error_end": (None, line(0, "layout: " + MISSPELT)),
    "rules_unwinding": (None, line(0, GIVEN)),
    "none": (0, []),
    "caught": (0, []),
    "started": (0, []),
    "adopted": (0, []),
    "late": (0, []),
    "status": (5, []),
    "throw": (None, line(3, "disk full")),
    "throw_prefixed": (None, line(2, "disk full")),
    "throw_zero": (None, line(0, "disk full")),
    "throw_unknown": (None, line(1, "unknown exception")),
    "throw_argument": (None, line(1, "bad argument")),
    "lost_sum": (None, line(2, "disk full")),
    "data": (None, line(2, "the user's data failed")),
    "callback": (None, line(2, "the user's function failed")),
    "callback_slope": (None, line(1, "the user's function failed")),
    "plan_error": (None, line(0, GIVEN)),
    "plan_error_alone": (None, line(3, GIVEN)),
    "size_mismatch": (None, line(0, "World: the communicator has 4 ranks, the mesh .* has 3 processors; .*")),
    "no_boundary": (None, line(3, "a World is destroyed by an exception; .*")),
    "kill": (None, []),
    "exit": (None, []),
}


def main():
    mpiexec, program, case = sys.argv[1:]
    wanted_status, wanted = CASES[case]
    try:
        job = subprocess.run([mpiexec, "-n", "4", program, case], capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"{case}: the job did not end")
    lines = [text for text in job.stderr.splitlines() if "mtf:" in text]
    problems = []
    if job.returncode == 0 if wanted_status is None else job.returncode != wanted_status:
        problems.append(f"exit status {job.returncode}")
    if len(lines) != len(wanted) or not all(re.fullmatch(w, text) for w, text in zip(wanted, lines)):
        problems.append(f"lines {lines}, wanted {wanted}")
    if "met" not in job.stdout:
        problems.append("the ranks did not meet before")
    if "went on" in job.stdout:
        problems.append("the program went on")
    if problems:
        sys.exit(f"{case}: {'; '.join(problems)}\n{job.stdout}{job.stderr}")


main()
