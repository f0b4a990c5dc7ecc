# shellcheck shell=bash
# shellcheck disable=SC2034  # the package lists are read by the scripts that source this
# Shared by the scripts beside it: messages, packages, configuring, and the environment of MPI programs.
# They source it after `set -euo pipefail` and run from the project's root.

say() { printf 'mtf: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# What building needs, on every end; a compiler that CXX names need not be g++.
BUILD_PACKAGES=(meson ninja-build pkg-config cmake python3 libboost-dev libopenblas-openmp-dev libfmt-dev
  libcli11-dev nlohmann-json3-dev zlib1g-dev liblzma-dev)
command -v "${CXX:-g++}" >/dev/null || BUILD_PACKAGES+=(g++)
# The end that the distribution brings: its Kokkos and its default MPI.
DISTRIBUTION_PACKAGES=(libtrilinos-kokkos-dev libopenmpi-dev openmpi-bin)
# The end with a current Kokkos, which get-kokkos.sh fetches, and an MPI of version 4.
MODERN_KOKKOS_PACKAGES=(patchelf dpkg-dev binutils)
MODERN_PACKAGES=(mpich libmpich-dev "${MODERN_KOKKOS_PACKAGES[@]}")

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# need_packages PACKAGE...: installs those that are missing; does nothing, quickly, when none is.
need_packages() {
  local package missing=() as_root=()
  command -v dpkg-query >/dev/null || die "this script installs Debian packages, and this is no Debian system; needed: $*"
  for package; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "apt-get is missing, and so are these packages: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "run this as root, or install sudo; these packages are missing: ${missing[*]}"
    as_root=(sudo)
  fi
  say "about to install with apt-get: ${missing[*]}"
  "${as_root[@]}" apt-get -qq update >&2 || die "apt-get update failed"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get could not install: ${missing[*]}"
}

# How many compilers run at once: one a core, but no more than there are 2 GB of free memory for.
default_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '$1 == "MemAvailable:" {print int($2 / 2000000)}' /proc/meminfo)
  if [ "${by_memory:-1}" -lt 1 ]; then by_memory=1; fi
  echo $((cores < by_memory ? cores : by_memory))
}

# configure FOLDER OPTION...: sets the folder up, or changes its options when they are not these.
configure() {
  local folder=$1 again=()
  shift
  if [ -f "$folder/build.ninja" ]; then
    [ "$(cat "$folder/mtf-options" 2>/dev/null)" != "$*" ] || return 0
    again=(--reconfigure)
  fi
  meson setup "${again[@]}" "$folder" "$@" >&2 || return 1
  echo "$*" >"$folder/mtf-options"
}

# For programs that are started by mpiexec here. One thread a rank, because each rank has one core; no binding, which
# would put all ranks on the same core; Open MPI refuses to run as root, or with more ranks than cores, unless told.
mpi_environment() {
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_PROC_BIND=false
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
}
