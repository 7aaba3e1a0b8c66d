#include "client/region_parts.h"

#include <cerrno>
#include <map>
#include <utility>

namespace uroce::client {

Result<RegionPart> RegionParts::next() {
  RegionPart part;
  std::map<std::pair<int, const sharing::Mapping*>, uint32_t> known;  // files of the part, and their indices
  for (; !done() && part.segments.size() < kMostSegments; ++next_) {
    sharing::SharedSegment& segment = segments_[next_];
    const auto [file, fresh] =
        known.try_emplace({segment.fd, segment.unopened.get()}, static_cast<uint32_t>(part.fds.size()));
    if (fresh && part.fds.size() == kMostFiles) break;
    if (fresh && segment.unopened != nullptr) {
      auto opened = sharing::Sharing::of_this_process().open(*segment.unopened, writable_);
      if (!opened && opened.error().code == EMFILE && !part.segments.empty()) break;
      if (!opened) return std::unexpected(opened.error());
      part.fds.push_back(opened->get());
      part.open.push_back(std::move(*opened));
    } else if (fresh) {
      part.fds.push_back(segment.fd);
      part.open.push_back(segment.file);
    }
    part.segments.push_back({file->second, segment.offset, segment.length});
    segment.file = {};
  }
  return part;
}

}  // namespace uroce::client
