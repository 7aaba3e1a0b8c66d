// Recordings that are kept: copies of the moment at which a queue pair ended, and the files of dead processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "transport/core/seam.h"

namespace uroce::record {

/// Of an engine, of each kind; the oldest go. With the one that is being written this bounds what a folder holds.
inline constexpr std::size_t kMostFiles = 8;

/// Holds the lock of a recording that is being written.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

/// "retry_exceeded", for a file's name.
std::string_view reason_of(const transport::QpEnd& end);
/// `path` as a word of a shell's command.
std::string shell_word(const std::string& path);

/// Writes what `memory` (record/writer.h) holds now into the new file `path`, which a replay reads. Errors: errno of
/// open(2) and write(2); there is no file then.
Result<void> copy_recording(std::span<const std::byte> memory, const std::string& path);

/// Removes the oldest recordings of the engine in `folder`, of processes that are gone and of queue pairs that ended,
/// but for kMostFiles of each. Returns the files of processes that did not end as they should, and were not told
/// before.
std::vector<std::string> tidy_up(const std::string& folder, std::string_view device, uint32_t engine);

}  // namespace uroce::record
