// The text as bytes: reading, batches, and what general compressors make of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mtf/runtime/mpi.hpp>

/// The file's bytes on every rank: rank 0 reads, the others receive. Throws on rank 0 if it cannot be read.
std::vector<unsigned char> read_text(const std::string& path, MPI_Comm comm);

/// Rows of consecutive bytes: `inputs` and, one byte further on, `targets`, both [batch, length].
struct TokenRows {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  std::int64_t bytes = 0;  // targets that count; the others are -1
};

/// `batch` windows at random places of bytes [0, size): a function of seed and step only, the same on every rank.
TokenRows random_rows(const std::vector<unsigned char>& text, std::size_t size, std::int64_t batch, std::int64_t length,
                      std::uint64_t seed, std::int64_t step);

/// The next windows from `position` on, one after the other, each byte of [position, end) a target once. Moves
/// `position`.
TokenRows next_rows(const std::vector<unsigned char>& text, std::size_t& position, std::int64_t batch,
                    std::int64_t length);

/// Bits per byte of the whole text under gzip -9 and xz -9.
struct Compression {
  double gzip = 0;
  double xz = 0;
};
Compression compress(const std::vector<unsigned char>& text);
