// The file that a recording is in. It lies on tmpfs and is mapped, so that it outlives the process, however that ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "record/recorder.h"

namespace uroce::record {

/// The file of an engine of a device: DEVICE.ENGINE.PID.uroce
std::string file_name(std::string_view device, uint32_t engine, uint32_t pid);

/// A mapping of a file.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_{};
};

/// A tape that records into a file, which stays when this goes.
class FileRecorder {
 public:
  /// `bytes` of the file. It is its user's alone, because a recording tells secrets. Errors: errno of open(2) and its
  /// like.
  static Result<std::unique_ptr<FileRecorder>> make(const std::string& folder, std::string_view device, uint32_t engine,
                                                    std::size_t bytes);

  transport::Tape& tape() { return recorder_; }
  const std::string& path() const { return path_; }

 private:
  FileRecorder(Mapping mapping, std::string path)
      : mapping_(std::move(mapping)), path_(std::move(path)), recorder_(mapping_.bytes()) {}

  Mapping mapping_;
  std::string path_;
  Recorder recorder_;
};

/// A recording as it was read. Later writes do not show.
struct Recorded {
  std::string device;
  uint32_t engine = 0;
  uint32_t pid = 0;
  bool full = false;                   ///< later ones had no room
  std::vector<std::byte> records;      ///< from the oldest keyframe on
  std::vector<std::size_t> keyframes;  ///< where each begins in them
};
/// Errors: errno of open(2) and its like; EINVAL: it is no recording, or another program's.
Result<Recorded> read_file(const std::string& path);

}  // namespace uroce::record
