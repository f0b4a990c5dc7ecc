#!/usr/bin/env python3
"""Copies the headers of a Kokkos that was built without CUDA and switches CUDA on in the copy.

Debian has no Kokkos for CUDA. What the copy is good for is to compile with nvcc; there is no library to link with.

    headers.py INCLUDE OUTPUT      INCLUDE holds Kokkos_Core.hpp, of version 5 or later: earlier ones do not know CUDA 13
"""

import os
import re
import shutil
import sys
from pathlib import Path

DEFINED = {"KokkosCore_config.h": ("KOKKOS_ENABLE_CUDA", "KOKKOS_ARCH_HOPPER", "KOKKOS_ARCH_HOPPER90"),
           "desul/atomics/Config.hpp": ("DESUL_ATOMICS_ENABLE_CUDA",)}
# The space of CUDA is declared after that of the host, and its set-up comes first of all.
INCLUDED = {"KokkosCore_Config_DeclareBackend.hpp": (r"#include <decl/Kokkos_Declare_\w+\.hpp>", "decl/Kokkos_Declare_CUDA.hpp"),
            "KokkosCore_Config_FwdBackend.hpp": (r"#include <fwd/Kokkos_Fwd_\w+\.hpp>", "fwd/Kokkos_Fwd_CUDA.hpp"),
            "KokkosCore_Config_SetupBackend.hpp": (r"#define KOKKOS_SETUP_HPP_", "setup/Kokkos_Setup_Cuda.hpp")}


def edit(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    if count != 1:
        raise SystemExit(f"mtf: {path} is not as in Kokkos 5: nothing matches {pattern}")
    path.write_text(text)


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    source, output = map(Path, sys.argv[1:])
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(source, output)
    for name, macros in DEFINED.items():
        for macro in macros:
            edit(output / name, rf"^/\* #undef {macro} \*/$", f"#define {macro}")
    for name, (pattern, header) in INCLUDED.items():
        edit(output / name, rf"^({pattern})$", rf"\1\n#include <{header}>")
    os.utime(output)  # copied with its time, it would always be out of date
    return 0


if __name__ == "__main__":
    sys.exit(main())
