#!/usr/bin/env python3
"""Installs mtf into an empty folder, builds a program outside the project by one route, with headers alone and with
the compiled part, and runs both on one rank.

The subproject route takes a copy of the source instead of an installation.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
# The same program with the headers alone, and with the compiled part of the library.
PROGRAMS = ["consumer", "consumer_compiled"]


def run(command, **options):
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def install(options, work):
    """Installs below a folder and returns what is the prefix there: an installation may be moved."""
    if options.cxxflags:
        os.environ["CXXFLAGS"] = options.cxxflags  # make and CMake read it
    run([*options.meson.split(), "install", "-C", options.build, "--no-rebuild", "--quiet", "--destdir", work / "root"])
    prefix = work / "root" / options.prefix.relative_to(options.prefix.anchor)
    for file in (*prefix.glob("**/mtf*.pc"), *prefix.glob("**/mtf*.cmake")):
        if not file.is_relative_to(prefix / options.libdir):
            raise SystemExit(f"{file} has what belongs to this architecture, and is not in {options.libdir}")
        if options.prefix != Path("/usr") and str(options.prefix) in file.read_text():
            raise SystemExit(f"{file} names the prefix {options.prefix}, so it cannot be moved")
    return prefix


def build_pkgconfig(options, work):
    prefix = install(options, work)
    ours = sorted({str(pc.parent) for pc in prefix.glob("**/pkgconfig/mtf*.pc")})
    folders = [*ours, options.pkg_config_path, os.environ.get("PKG_CONFIG_PATH", "")]
    environment = dict(os.environ, PKG_CONFIG_PATH=":".join(filter(None, folders)))
    run(["make", "-C", work / "program", f"CXX={options.cxx}", *options.programs], env=environment)
    return work / "program"


def build_cmake(options, work):
    prefix = install(options, work)
    folders = filter(None, [options.pkg_config_path, os.environ.get("PKG_CONFIG_PATH", "")])
    environment = dict(os.environ, PKG_CONFIG_PATH=":".join(folders))
    arguments = ["-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_COMPILER={options.cxx}", f"-Dmtf_ROOT={prefix}"]
    if options.mpicxx:
        arguments.append(f"-DMPI_CXX_COMPILER={options.mpicxx}")
    run(["cmake", "-S", work / "program", "-B", work / "build", "-G", "Ninja", *arguments], env=environment)
    run(["cmake", "--build", work / "build", "-j", "1", "--target", *options.programs], env=environment)
    return work / "build"


def build_subproject(options, work):
    copy = work / "program" / "subprojects" / "mtf"
    copy.mkdir(parents=True)
    for name in ("meson.build", "meson_options.txt", "LICENSE"):
        shutil.copy(SOURCE / name, copy)
    for name in ("include", "cmake", "src"):
        shutil.copytree(SOURCE / name, copy / name)
    environment = dict(os.environ, CXX=options.cxx)
    run([*options.meson.split(), "setup", work / "build", work / "program", f"--pkg-config-path={options.pkg_config_path}",
         f"-Dmtf:mpi_implementation={options.mpi}"], env=environment)
    run(["ninja", "-C", work / "build", "-j", "1", *options.programs])
    return work / "build"


ROUTES = {"pkgconfig": build_pkgconfig, "cmake": build_cmake, "subproject": build_subproject}


def main():
    parser = argparse.ArgumentParser(description="a program outside the project, built by one route")
    parser.add_argument("route", choices=ROUTES)
    parser.add_argument("--build", required=True, type=Path, help="the build folder of mtf")
    parser.add_argument("--prefix", required=True, type=Path, help="the prefix it was configured with")
    parser.add_argument("--libdir", required=True, help="the folder of libraries in it")
    parser.add_argument("--headers-alone", action="store_true", help="the compiled part is not installed")
    parser.add_argument("--meson", default="meson")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--mpi", default="auto", help="mtf's option mpi_implementation")
    parser.add_argument("--mpicxx", default="", help="the MPI compiler that CMake is to ask")
    parser.add_argument("--pkg-config-path", default="", help="where the build folder looked besides the usual places")
    parser.add_argument("--cxxflags", help="what a program needs to link with the installed library: sanitizers")
    options = parser.parse_args()
    options.programs = PROGRAMS[:1] if options.headers_alone and options.route != "subproject" else PROGRAMS

    with tempfile.TemporaryDirectory(prefix="mtf-consumer-") as scratch:
        work = Path(scratch)
        shutil.copytree(HERE / options.route, work / "program")
        shutil.copy(HERE / "main.cpp", work / "program")
        try:
            folder = ROUTES[options.route](options, work)
            for program in options.programs:
                run([folder / program])
        except subprocess.CalledProcessError as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
