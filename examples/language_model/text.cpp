#include "text.hpp"

#include <algorithm>
#include <stdexcept>

#include <lzma.h>
#include <zlib.h>

#include <mtf/io/file.hpp>

std::vector<unsigned char> read_text(const std::string& path, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  std::vector<unsigned char> text;
  if (rank == 0) {
    const std::string bytes = mtf::read_file(path);
    text.assign(bytes.begin(), bytes.end());
    if (text.empty()) throw std::runtime_error(mtf::quoted(path) + " is empty");
  }
  std::uint64_t size = text.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, 0, comm);
  text.resize(size);
  constexpr std::uint64_t piece = 1U << 30U;
  for (std::uint64_t done = 0; done < size; done += piece) {
    MPI_Bcast(text.data() + done, static_cast<int>(std::min(piece, size - done)), MPI_BYTE, 0, comm);
  }
  return text;
}

namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): a good mix of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

}  // namespace

TokenRows random_rows(const std::vector<unsigned char>& text, std::size_t size, std::int64_t batch, std::int64_t length,
                      std::uint64_t seed, std::int64_t step) {
  TokenRows rows;
  const auto places = size - static_cast<std::size_t>(length);
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::uint64_t number =
        mix(mix(mix(seed) ^ static_cast<std::uint64_t>(step)) ^ static_cast<std::uint64_t>(row));
    const unsigned char* window = text.data() + number % places;
    rows.inputs.insert(rows.inputs.end(), window, window + length);
    rows.targets.insert(rows.targets.end(), window + 1, window + length + 1);
  }
  rows.bytes = batch * length;
  return rows;
}

TokenRows next_rows(const std::vector<unsigned char>& text, std::size_t& position, std::int64_t batch,
                    std::int64_t length) {
  TokenRows rows;
  for (std::int64_t i = 0; i < batch * length; ++i, ++position) {
    const bool counts = position < text.size();
    rows.inputs.push_back(counts && position > 0 ? text[position - 1] : 0);
    rows.targets.push_back(counts ? text[position] : -1);
    rows.bytes += counts ? 1 : 0;
  }
  position = std::min(position, text.size());
  return rows;
}

Compression compress(const std::vector<unsigned char>& text) {
  const auto bits_per_byte = [&](std::size_t size) {
    return 8.0 * static_cast<double>(size) / static_cast<double>(text.size());
  };
  Compression result;
  uLongf deflated = compressBound(static_cast<uLong>(text.size()));
  std::vector<unsigned char> out(deflated);
  constexpr std::size_t gzip_frame = 12;  // gzip's header and trailer are 18 bytes, zlib's 6
  if (compress2(out.data(), &deflated, text.data(), static_cast<uLong>(text.size()), Z_BEST_COMPRESSION) == Z_OK) {
    result.gzip = bits_per_byte(deflated + gzip_frame);
  }
  out.resize(lzma_stream_buffer_bound(text.size()));
  std::size_t written = 0;
  if (lzma_easy_buffer_encode(9, LZMA_CHECK_CRC64, nullptr, text.data(), text.size(), out.data(), &written,
                              out.size()) == LZMA_OK) {
    result.xz = bits_per_byte(written);
  }
  return result;
}
