// Files that a user names: what is wrong with one is known at once, and said in words.
#pragma once

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <mtf/tensor/error.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

/// A descriptor that is closed at the end of its scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

}  // namespace detail

/// All bytes of a file, of a pipe or of what is typed. Throws std::runtime_error with one line, `cannot read "path":`
/// and the reason: it is not there, may not be read, is a directory or device, or is a pipe that nobody writes to (which
/// would be waited for in silence).
[[nodiscard]] inline std::string read_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error("cannot read " + mtf::quoted(path) + ": " + why);
  };
  const auto refuse_call = [&] { refuse(std::strerror(errno)); };
  // Without O_NONBLOCK opening a pipe waits for a writer.
  const detail::FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.number() < 0) refuse_call();
  struct stat status{};
  if (fstat(file.number(), &status) != 0) refuse_call();
  const bool is_pipe = S_ISFIFO(status.st_mode);
  if (S_ISDIR(status.st_mode)) refuse("it is a directory");
  if (!is_pipe && !S_ISREG(status.st_mode) && isatty(file.number()) == 0) refuse("it is neither a file nor a pipe");
  std::string text;
  std::array<char, 1 << 16> piece;
  for (bool is_first = true;; is_first = false) {
    const ssize_t count = read(file.number(), piece.data(), piece.size());
    if (count > 0) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      if (is_first && is_pipe) refuse("it is a pipe that nobody writes to; start the writer first");
      return text;
    } else if (errno == EAGAIN) {  // there is a writer, who has not written yet
      if (fcntl(file.number(), F_SETFL, fcntl(file.number(), F_GETFL) & ~O_NONBLOCK) != 0) refuse_call();
    } else if (errno != EINTR) {
      refuse_call();
    }
  }
}

/// Throws std::runtime_error with one line, `cannot write "path":` and the reason, if a file of this name could not be
/// written now: its folder is not there, it is a directory, may not be written, is a pipe that nobody reads. To be asked
/// before the work whose result is to go there. What a file holds stays; one that does not exist is not left behind.
inline void require_writable(const std::string& path) {
  {
    const detail::FileDescriptor made(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (made.number() >= 0) {
      unlink(path.c_str());
      return;
    }
  }
  if (errno == EEXIST) {
    const detail::FileDescriptor file(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (file.number() >= 0) return;
  }
  const std::string why = errno == ENXIO ? "it is a pipe that nobody reads" : std::strerror(errno);
  throw std::runtime_error("cannot write " + mtf::quoted(path) + ": " + why);
}

}  // namespace v0
}  // namespace mtf
