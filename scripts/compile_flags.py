"""The compiler and flags of one target, for tools that compile files by themselves.

They are read from compile_commands.json, so they are what Meson gives to everybody who uses mtf_dep.
"""

import json
import os
import shlex
from pathlib import Path

# Output, dependency files and precompiled headers belong to the one command that was recorded.
_DROP = {"-c", "-MD", "-MMD", "-MP", "-Winvalid-pch"}
_DROP_WITH_VALUE = {"-o", "-MF", "-MQ", "-MT", "-include", "-include-pch"}


def read(database, like):
    """Returns (compiler, flags, folder) of the command that compiles the file `like`."""
    wanted = os.path.realpath(like)
    for entry in json.loads(Path(database).read_text()):
        if os.path.realpath(os.path.join(entry["directory"], entry["file"])) == wanted:
            break
    else:
        raise SystemExit(f"{database} has no command for {like}")
    words = shlex.split(entry["command"])
    if Path(words[0]).name == "ccache":
        words = words[1:]
    compiler, flags, skip = words[0], [], False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in _DROP_WITH_VALUE:
            skip = True
        elif word not in _DROP and word != entry["file"]:
            flags.append(word)
    return compiler, flags, entry["directory"]


def without_warnings(flags):
    """The flags less all that ask for warnings: what a user has who asked for none."""
    return [f for f in flags if not f.startswith("-W") and not f.startswith("-pedantic")]


def without_optimisation(flags):
    return [f for f in flags if not (f.startswith("-O") and len(f) <= 6) and not f.startswith("-g")]


def plain_environment():
    """English messages without colours, whatever the caller's settings."""
    environment = dict(os.environ, LC_ALL="C", TERM="dumb")
    for name in ("GCC_COLORS", "CLICOLOR_FORCE"):
        environment.pop(name, None)
    return environment
