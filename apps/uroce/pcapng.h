// A capture file in the pcapng format (draft-ietf-opsawg-pcapng): one Ethernet interface, times in ns.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

namespace uroce::cli {

class Pcapng {
 public:
  /// "-" is standard output. Errors: the system's.
  static Result<Pcapng> create(const std::string& path, std::string_view device, std::string_view program);
  Pcapng(Pcapng&& other) noexcept;
  Pcapng& operator=(Pcapng&&) = delete;
  ~Pcapng();

  /// `time_ns` is in nanoseconds since 1970. `comment`: empty for none.
  void frame(uint64_t time_ns, bool outbound, std::span<const std::byte> bytes, std::string_view comment = {});
  /// The last call: writes the numbers of frames seen and lost. Errors: the first error of writing.
  Result<void> end(uint64_t seen, uint64_t dropped);
  /// Passes buffered bytes to a waiting reader.
  void flush();
  /// The first error of writing so far: EPIPE when nobody reads any more, ENOSPC when the disk is full, and others.
  Result<void> state() const;

 private:
  explicit Pcapng(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  void block(uint32_t type, std::span<const std::byte> body);
  void write(std::span<const std::byte> bytes);

  std::FILE* file_;
  std::string path_;
  int error_ = 0;
  std::vector<std::byte> scratch_;
};

}  // namespace uroce::cli
