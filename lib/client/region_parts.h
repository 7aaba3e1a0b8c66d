// The segments of one registration, a message at a time: a message carries few descriptors, and the process may have
// few of them open.
#pragma once

#include <cstddef>
#include <vector>

#include <uroce/error.h>

#include "message/memory_messages.h"
#include "sharing/sharing.h"

namespace uroce::client {

/// The segments of one message.
struct RegionPart {
  std::vector<message::Segment> segments{};
  std::vector<int> fds{};
  std::vector<sharing::FileDescriptor> open{};  ///< keeps `fds` open, but for those of moved pages
};

class RegionParts {
 public:
  static constexpr std::size_t kMostFiles = sharing::kFilesOpenAtOnce, kMostSegments = message::kMaxElements / 2;
  static_assert(kMostFiles <= message::kMaxFds);

  RegionParts(std::vector<sharing::SharedSegment> segments, bool writable)
      : segments_(std::move(segments)), writable_(writable) {}

  std::size_t segments() const { return segments_.size(); }
  bool done() const { return next_ == segments_.size(); }
  /// The next part. It has less files where the process has no descriptors left. Errors: those of Sharing::open().
  Result<RegionPart> next();

 private:
  std::vector<sharing::SharedSegment> segments_;
  bool writable_;
  std::size_t next_ = 0;
};

}  // namespace uroce::client
