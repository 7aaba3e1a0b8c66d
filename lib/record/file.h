// The file that a recording is in. It lies on tmpfs and is mapped, so that it outlives the process, however that ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "base/time.h"
#include "record/keeping.h"
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
  /// `bytes` of the file. It is its user's alone, because a recording tells secrets. Old ones in the folder go
  /// (tidy_up()). Errors: errno of open(2) and its like.
  static Result<std::unique_ptr<FileRecorder>> make(const std::string& folder, std::string_view device, uint32_t engine,
                                                    std::size_t bytes);
  ~FileRecorder();

  transport::Tape& tape() { return recorder_; }
  const std::string& path() const { return path_; }
  /// The files of processes before, which died.
  const std::vector<std::string>& left_by_the_dead() const { return dead_; }
  /// Before the engine's first call: `wake` is called on its thread when look() has something to do.
  void wake_by(std::function<void()> wake) { wake_ = std::move(wake); }
  /// Copies the recording where a queue pair has ended by itself, but not within kKeepInterval of the last copy: that
  /// has it, too. Returns what a person should know; nullopt: nothing more. One thread, not the engine's.
  std::optional<std::string> look(Nanos now);
  static constexpr Nanos kKeepInterval = std::chrono::seconds(1);

 private:
  FileRecorder(std::string folder, std::string_view device, Descriptor file, Mapping mapping, std::string path);
  FileHead& head() const { return *reinterpret_cast<FileHead*>(mapping_.bytes().data()); }
  void on_end(const transport::QpEnd& end, uint32_t others);

  std::string folder_;
  std::string device_;
  Descriptor file_;  ///< with its lock
  Mapping mapping_;
  std::string path_;
  std::vector<std::string> dead_;
  std::function<void()> wake_;
  // The engine writes the end while it is not told, and the other thread reads it while it is.
  transport::QpEnd end_;
  uint32_t others_ = 0;
  std::atomic<bool> told_{false};
  bool told_full_ = false;
  std::optional<Nanos> kept_at_;
  uint32_t kept_ = 0;
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
