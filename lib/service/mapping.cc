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
/// Shorter memory of small pages has no huge page.
constexpr uint64_t kLeastHuge = uint64_t{2} << 20;
/// Bytes that one system call unmaps: thousands of small files. Other clients' calls wait for the lock that it holds.
constexpr uint64_t kUnmapStep = uint64_t{16} << 20;
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
                "cannot register memory of a file that may only be read: others wait while its owner removes pages; "
                "open it for reading and writing, seal it with F_SEAL_WRITE and F_SEAL_SHRINK, or let it belong to "
                "root");
  }
  return {};
}

}  // namespace

Result<void> Mapping::reserve(uint64_t like, uint64_t bytes, uint64_t alignment) {
  bytes += alignment - kPage;
  void* reserved = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return system_error("address space");
  auto* const start = static_cast<std::byte*>(reserved);
  const uint64_t shift = (like - reinterpret_cast<uint64_t>(reserved)) % alignment;
  base_ = start + shift;
  bytes_ = bytes - shift;
  if (shift != 0) munmap(start, shift);
  return {};
}

Mapping::~Mapping() {
  watch_.reset();
  const uint64_t step = std::max(kUnmapStep, largest_page_);
  for (uint64_t done = 0, next = 0; done < bytes_; done = next) {
    next = std::min(done + step - reinterpret_cast<uint64_t>(base_ + done) % step, bytes_);
    munmap(base_ + done, next - done);
  }
}

MappingBuilder::MappingBuilder(const MappingPlan& plan)
    : plan_(plan), total_((plan.address % kPage + plan.length + kPage - 1) / kPage * kPage), mapping_(new Mapping) {}

Result<MappingBuilder> MappingBuilder::begin(const MappingPlan& plan) {
  if (plan.length == 0 || plan.length > kMaxBytes) {
    return fail(EINVAL, fmt::format("cannot register memory of {} bytes in {} segments; there must be 1 to {} bytes",
                                    plan.length, plan.pieces, kMaxBytes));
  }
  MappingBuilder builder(plan);
  if (plan.pieces == 0 || plan.pieces > builder.total_ / kPage) {
    return fail(EINVAL, fmt::format("cannot register memory of {} pages in {} segments; each holds one page or more",
                                    builder.total_ / kPage, plan.pieces));
  }
  auto mappings = take_mappings(plan.pieces);
  if (!mappings) return std::unexpected(mappings.error());
  builder.mapping_->mappings_ = std::move(*mappings);
  return builder;
}

Result<void> MappingBuilder::check(const message::Segment& segment) const {
  if (pieces_ == plan_.pieces) {
    return fail(EINVAL, fmt::format("cannot register memory: more segments came than the {} that were announced",
                                    plan_.pieces));
  }
  if (segment.length == 0 || segment.length % kPage != 0 || segment.offset % kPage != 0 || segment.offset > kMaxBytes) {
    return fail(EINVAL,
                fmt::format("cannot register memory: a segment has offset {} and length {}; both must be whole pages",
                            segment.offset, segment.length));
  }
  if (segment.length > total_ - done_) {
    return fail(EINVAL,
                fmt::format("cannot register memory: a segment of {} bytes follows {} bytes for a region of {}; "
                            "pass only the pages that hold it",
                            segment.length, done_, plan_.length));
  }
  return {};
}

Result<void> MappingBuilder::add(std::span<const message::Segment> segments, std::span<const message::Fd> fds) {
  for (const message::Segment& segment : segments) {
    if (segment.fd >= fds.size()) {
      return fail(EINVAL, fmt::format("cannot register memory: a segment names descriptor {} of {}; they begin with 0",
                                      segment.fd, fds.size()));
    }
    if (auto added = add_one(segment, fds[segment.fd].get()); !added) return added;
  }
  return {};
}

Result<void> MappingBuilder::add_one(const message::Segment& segment, int fd) {
  if (auto checked = check(segment); !checked) return checked;
  const auto file = check_memory_file(fd, segment.offset, segment.length, plan_.rules.files);
  if (!file) return std::unexpected(file.error());
  if (auto allowed = check_rules(*file, plan_.rules); !allowed) return allowed;
  const uint64_t first = plan_.address - plan_.address % kPage;
  const uint64_t front = segment.offset % file->page;
  const uint64_t back = (file->page - (segment.offset + segment.length) % file->page) % file->page;
  const bool fits = (first + done_ - front) % file->page == 0 && (front == 0 || done_ == 0) &&
                    (back == 0 || done_ + segment.length == total_);
  if (!fits) {
    return fail(EINVAL, fmt::format("cannot register memory: a segment of {} bytes at offset {} of its file is not "
                                    "whole pages of {} bytes",
                                    segment.length, segment.offset, file->page));
  }
  if (done_ == 0) {
    before_ = front;
    // Behind the last byte, the reservation has room for the rest of the largest page.
    const bool small = plan_.pieces == 1 && file->page == kPage && total_ < kLeastHuge;
    const uint64_t room = small ? total_ : front + total_ + kAlignment;
    if (auto reserved = mapping_->reserve(first - front, room, small ? kPage : kAlignment); !reserved) return reserved;
    mapping_->data_ = mapping_->base_ + front;
    // Sealed files, too: a client can punch holes in one, and the machine may then have no pages for them.
    mapping_->watch_.emplace(mapping_->base_, mapping_->bytes_, kPage);
  }
  behind_ = back;
  mapping_->punchable_ = mapping_->punchable_ || file->punchable;
  mapping_->largest_page_ = std::max(mapping_->largest_page_, file->page);
  largest_file_ = std::max(largest_file_, file->size);
  if (auto mapped = map(segment, fd, *file); !mapped) return mapped;
  keep(segment, fd);
  done_ += segment.length;
  ++pieces_;
  return {};
}

void MappingBuilder::keep(const message::Segment& segment, int fd) {
  if (plan_.rules.files_kept == nullptr || !all_kept_) return;
  auto& kept = mapping_->segments_;
  auto file = plan_.rules.files_kept->keep(fd);
  all_kept_ = file != nullptr;
  if (!all_kept_) return kept.clear();
  const bool goes_on =
      !kept.empty() && kept.back().file == file && kept.back().offset + kept.back().length == segment.offset;
  if (goes_on) {
    kept.back().length += segment.length;
  } else {
    kept.push_back({std::move(file), segment.offset, segment.length});
  }
}

Result<void> MappingBuilder::map(const message::Segment& segment, int fd, const MemoryFile& file) {
  std::byte* const data = mapping_->data_ + done_;
  const uint64_t front = done_ == 0 ? before_ : 0;
  std::byte* const at = data - front;
  const uint64_t length = front + segment.length + behind_;
  const int protection = PROT_READ | (plan_.writable ? PROT_WRITE : 0);
  if (mmap(at, length, protection, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(segment.offset - front)) != at) {
    return file.dmabuf ? dmabuf_error(plan_.writable) : system_error("mapping");
  }
  if (plan_.rules.guard && file.punchable && FaultWatch::can_guard()) {
    if (errno = FaultWatch::guard(at, length); errno != 0) return system_error("userfaultfd");
  }
  if (!plan_.rules.populate) return {};
  // So that engines have few page faults. Memory that a client has filled costs the daemon nothing; holes would.
  const uint64_t holes = make_present(file, fd, segment.offset, segment.length, data, plan_.writable);
  if (holes == 0) return {};
  auto share = take_holes(holes);
  if (!share) return std::unexpected(share.error());
  mapping_->holes_.join(std::move(*share));
  auto room = memory_room().take(holes, !plan_.rules.guard);
  if (!room) return std::unexpected(room.error());
  mapping_->room_of_holes_.join(std::move(*room));
  return {};
}

Result<std::unique_ptr<Mapping>> MappingBuilder::complete() {
  if (done_ != total_ || pieces_ != plan_.pieces) {
    return fail(EINVAL, fmt::format("cannot register memory: {} segments with {} bytes came, and {} with {} are wanted",
                                    pieces_, done_, plan_.pieces, total_));
  }
  // All clients share the 65530 mappings that a process may have (vm.max_map_count).
  const uint64_t bytes = before_ + total_ + behind_;
  if (bytes < mapping_->bytes_) munmap(mapping_->base_ + bytes, mapping_->bytes_ - bytes);
  mapping_->bytes_ = bytes;
  mapping_->watch_->settle(bytes, mapping_->largest_page_);
  mapping_->watch_->note_waits(plan_.rules.waits, largest_file_);
  mapping_->data_ += plan_.address % kPage;
  mapping_->writable_ = plan_.writable;
  return std::move(mapping_);
}

}  // namespace uroce::service
