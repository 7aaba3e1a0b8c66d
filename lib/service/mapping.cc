#include "service/mapping.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>

#include <fmt/format.h>

#include "service/wait_account.h"

namespace uroce::service {
namespace {

constexpr uint64_t kPage = 4096;
/// Addresses here equal the client's modulo this, so that huge pages of any size stay aligned.
constexpr uint64_t kAlignment = uint64_t{1} << 30;
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

std::unexpected<Error> system_error(const char* what) {
  const int code = errno;
  return fail(code, fmt::format("cannot register memory: {}: {}", what, std::strerror(code)));
}

std::unexpected<Error> dmabuf_error(bool writable) {
  const int code = errno;
  if (code == EACCES) {
    return fail(code, fmt::format("cannot register a dma-buf: its descriptor may not be mapped for {}; make the "
                                  "dma-buf with O_RDWR",
                                  writable ? "writing" : "reading"));
  }
  return fail(EOPNOTSUPP, fmt::format("cannot register a dma-buf: its exporter does not map it for programs ({})",
                                      std::strerror(code)));
}

/// Errors: EACCES.
Result<void> check_rules(const MemoryFile& file, const MappingRules& rules) {
  if (!file.punchable) return {};
  if (rules.steady) return fail(EACCES, std::string(WaitAccount::kRefusal));
  if (rules.guard && !file.guardable && FaultWatch::can_guard()) {
    return fail(EACCES,
                "cannot register memory of a file that is open only for reading: others wait while its owner removes "
                "pages; open it for reading and writing, or let it belong to root");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::make(std::span<const message::Segment> segments,
                                               std::span<const message::Fd> fds, uint64_t address, uint64_t length,
                                               bool writable, const MappingRules& rules) {
  uint64_t total = 0;
  for (const message::Segment& segment : segments) {
    if (segment.fd >= fds.size() || segment.length == 0 || segment.length % kPage != 0 || segment.offset % kPage != 0 ||
        segment.length > kMaxBytes || segment.offset > kMaxBytes || total + segment.length > kMaxBytes) {
      return fail(EINVAL,
                  fmt::format("cannot register memory: a segment has descriptor {} of {}, offset {} and length {}; "
                              "offset and length must be whole pages",
                              segment.fd, fds.size(), segment.offset, segment.length));
    }
    total += segment.length;
  }
  const uint64_t in_page = address % kPage;
  if (length == 0 || length > total || in_page + length > total) {
    return fail(
        EINVAL,
        fmt::format("cannot register memory: the segments hold {} bytes, but {} bytes from offset {} are wanted", total,
                    length, in_page));
  }
  if (total - length - in_page >= kPage) {
    return fail(
        EINVAL,
        fmt::format("cannot register memory: the segments hold {} bytes for a region of {}; pass only the pages that "
                    "hold it",
                    total, length));
  }
  std::unique_ptr<Mapping> mapping(new Mapping);
  if (auto mapped = mapping->map(segments, fds, address - in_page, total, writable, rules); !mapped) {
    return std::unexpected(mapped.error());
  }
  mapping->data_ += in_page;
  return mapping;
}

Result<void> Mapping::map(std::span<const message::Segment> segments, std::span<const message::Fd> fds, uint64_t first,
                          uint64_t total, bool writable, const MappingRules& rules) {
  // Files of huge pages are mapped in whole huge pages. The reservation must include the parts before the first byte
  // and after the last, or they would replace neighbouring mappings.
  uint64_t before = 0, behind = 0, done = 0, largest = kPage;
  std::vector<MemoryFile> files;
  for (const message::Segment& segment : segments) {
    const auto file = check_memory_file(fds[segment.fd].get(), segment.offset, segment.length, rules.files);
    if (!file) return std::unexpected(file.error());
    if (auto allowed = check_rules(*file, rules); !allowed) return allowed;
    punchable_ = punchable_ || file->punchable;
    const uint64_t page = file->page;
    const uint64_t front = segment.offset % page;
    const uint64_t back = (page - (segment.offset + segment.length) % page) % page;
    const bool fits = (first + done - front) % page == 0 && (front == 0 || done == 0) &&
                      (back == 0 || done + segment.length == total);
    if (!fits) {
      return fail(
          EINVAL,
          fmt::format("cannot register memory: a segment of {} bytes at offset {} of its file is not whole pages "
                      "of {} bytes",
                      segment.length, segment.offset, page));
    }
    before += front;
    behind += back;
    done += segment.length;
    largest = std::max(largest, page);
    files.push_back(*file);
  }
  auto mappings = take_mappings(segments.size());
  if (!mappings) return std::unexpected(mappings.error());
  mappings_ = std::move(*mappings);
  if (auto reserved = reserve(first - before, before + total + behind); !reserved) return reserved;
  data_ = base_ + before;

  // Sealed files, too: a client can punch holes in one, and the machine may then have no pages for them.
  watch_.emplace(base_, bytes_, largest);
  std::byte* at = base_;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const message::Segment& segment = segments[i];
    const uint64_t front = at == base_ ? before : 0;
    const uint64_t length = front + segment.length + (at + front + segment.length == data_ + total ? behind : 0);
    const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    if (mmap(at, length, protection, MAP_SHARED | MAP_FIXED, fds[segment.fd].get(),
             static_cast<off_t>(segment.offset - front)) != at) {
      return files[i].dmabuf ? dmabuf_error(writable) : system_error("mapping");
    }
    if (rules.guard && files[i].punchable && FaultWatch::can_guard()) {
      if (errno = FaultWatch::guard(at, length); errno != 0) return system_error("userfaultfd");
    }
    at += length;
  }
  watch_->note_waits(rules.waits, std::ranges::max(files, {}, &MemoryFile::size).size);
  return fill(segments, files, fds, writable);
}

// So that engines have few page faults. Memory that a client has filled costs the daemon nothing; holes would.
Result<void> Mapping::fill(std::span<const message::Segment> segments, std::span<const MemoryFile> files,
                           std::span<const message::Fd> fds, bool writable) {
  uint64_t holes = 0;
  std::byte* at = data_;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const message::Segment& segment = segments[i];
    holes += make_present(files[i], fds[segment.fd].get(), segment.offset, segment.length, at, writable);
    at += segment.length;
  }
  if (holes == 0) return {};
  auto share = take_holes(holes);
  if (!share) return std::unexpected(share.error());
  holes_ = std::move(*share);
  return {};
}

Result<void> Mapping::reserve(uint64_t like, uint64_t bytes) {
  void* reserved = mmap(nullptr, bytes + kAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return system_error("address space");
  auto* const start = static_cast<std::byte*>(reserved);
  const uint64_t shift = (like - reinterpret_cast<uint64_t>(reserved)) % kAlignment;
  base_ = start + shift;
  bytes_ = bytes;
  // Frees the rest: all clients share the 65530 mappings that a process may have (vm.max_map_count).
  if (shift != 0) munmap(start, shift);
  munmap(base_ + bytes, kAlignment - shift);
  return {};
}

Mapping::~Mapping() {
  watch_.reset();
  if (base_ != nullptr) munmap(base_, bytes_);
}

}  // namespace uroce::service
