#include "service/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace uroce::service {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kGrain = 64;
constexpr std::size_t kMaxChunk = std::size_t{64} << 20;

std::size_t round_up(std::size_t bytes, std::size_t grain) { return (bytes + grain - 1) / grain * grain; }

/// Whether all pages of [data, data + bytes) are there. MAP_POPULATE does not say so: where a limit of the control
/// group (hugetlb.2MB.max) refuses huge pages, an access would raise SIGBUS.
bool is_present(std::byte* data, std::size_t bytes) {
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there(bytes / kPage);
  return mincore(data, bytes, there.data()) == 0 &&
         std::ranges::all_of(there, [](unsigned char page) { return (page & 1) != 0; });
}

/// A new memfd of `bytes`, mapped. Huge pages are all present, and cannot be missing later; ordinary ones are absent.
/// `seals`: the client gets the descriptor.
std::optional<std::pair<message::Fd, std::byte*>> make_memory(std::size_t bytes, unsigned flags, int seals) {
  message::Fd fd(memfd_create("uroce-queues", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return std::nullopt;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (flags != 0 ? MAP_POPULATE : 0), fd.get(), 0);
  if (data == MAP_FAILED) return std::nullopt;
  if (flags != 0 && !is_present(static_cast<std::byte*>(data), bytes)) {
    munmap(data, bytes);
    return std::nullopt;
  }
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) {
    munmap(data, bytes);
    return std::nullopt;
  }
  return std::pair(std::move(fd), static_cast<std::byte*>(data));
}

Error no_memory(std::size_t bytes) {
  return {ENOMEM, fmt::format("no memory for queues of {} bytes; ask for fewer entries", bytes)};
}

/// The ordinary pages that hold [data, data + bytes).
std::span<std::byte> pages_of(std::byte* data, std::size_t bytes) {
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t front = reinterpret_cast<uintptr_t>(data) % kPage;
  return {data - front, round_up(front + bytes, kPage)};
}

/// False: there is no memory. Linux before 5.14 cannot say so (madvise(2)); there, the caller's access does it.
bool make_present(std::span<std::byte> pages) {
  return madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

}  // namespace

ArenaMemory::ArenaMemory(std::shared_ptr<Arena> arena, uint32_t chunk, uint64_t offset, std::byte* data,
                         std::size_t size, Charge charge)
    : QueueMemory(data, size), arena_(std::move(arena)), chunk_(chunk), offset_(offset), charge_(std::move(charge)) {}

ArenaMemory::~ArenaMemory() { arena_->give_back(chunk_, offset_, size()); }

Arena::Chunk::Chunk(Chunk&& other) noexcept
    : fd(std::move(other.fd)),
      data(std::exchange(other.data, nullptr)),
      bytes(other.bytes),
      sealed(other.sealed),
      unsealable(other.unsealable),
      sparse(other.sparse),
      free(std::move(other.free)),
      mapping(std::move(other.mapping)),
      watch(std::move(other.watch)) {}

Arena::Chunk::~Chunk() {
  watch.reset();
  if (data != nullptr) munmap(data, bytes);
}

Result<std::unique_ptr<control::QueueMemory>> Arena::allocate(std::size_t bytes) {
  bytes = round_up(bytes, kGrain);
  auto charge = payer_(bytes);
  if (!charge) return std::unexpected(charge.error());
  const std::scoped_lock lock(mutex_);
  if (!expected_.empty()) return allocate_expected(bytes, std::move(*charge));
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (std::size_t index = 0; index < chunks_.size(); ++index) {
      Chunk& chunk = chunks_[index];
      const auto fits = std::ranges::find_if(chunk.free, [bytes](const auto& hole) { return hole.second >= bytes; });
      if (fits == chunk.free.end()) continue;
      const auto [offset, size] = *fits;
      if (auto cleared = clear(chunk, offset, bytes); !cleared) return std::unexpected(cleared.error());
      chunk.free.erase(fits);
      if (size > bytes) chunk.free.emplace(offset + bytes, size - bytes);
      used_ += bytes;
      return std::make_unique<ArenaMemory>(shared_from_this(), static_cast<uint32_t>(index), offset,
                                           chunk.data + offset, bytes, std::move(*charge));
    }
    if (auto added = add_chunk(bytes); !added) return std::unexpected(added.error());
  }
  return std::unexpected(no_memory(bytes));
}

Result<void> Arena::clear(const Chunk& chunk, uint64_t offset, std::size_t bytes) const {
  const auto room = chunk.sparse && space_ ? space_(bytes) : Result<MemoryRoom::Hold>();
  if (!room) return std::unexpected(room.error());
  if (chunk.sparse && !make_present(pages_of(chunk.data + offset, bytes))) return std::unexpected(no_memory(bytes));
  if (auto guarded = guard(chunk, offset, bytes); !guarded) return guarded;
  std::memset(chunk.data + offset, 0, bytes);
  return {};
}

Result<void> Arena::guard(const Chunk& chunk, uint64_t offset, std::size_t bytes) const {
  if (!chunk.sparse || !rules_.guard) return {};
  const auto pages = pages_of(chunk.data + offset, bytes);
  const int code = FaultWatch::guard(pages.data(), pages.size());
  if (code == 0) return {};
  return fail(code, fmt::format("cannot guard queues of {} bytes: userfaultfd: {}", bytes, std::strerror(code)));
}

// Each piece is twice as large as the last, so that a client with many objects has few mappings.
Result<void> Arena::add_chunk(std::size_t bytes) {
  const std::size_t usual = chunks_.empty() ? kHugePage : std::min<std::size_t>(2 * chunks_.back().bytes, kMaxChunk);
  const std::size_t size = round_up(std::max(bytes, usual), kHugePage);
  auto mapping = take_mappings(1);
  if (!mapping) return std::unexpected(mapping.error());
  // All huge pages of a piece are taken at once. Where they count as memory, clients would take more than they ask for.
  const bool ordinary = (chunks_.empty() && size == kHugePage) || huge_pages_are_memory();
  // The client must not shrink memory that engines read, nor seal what a daemon that takes over maps again.
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | (rules_.seal ? 0 : F_SEAL_SEAL);
  auto memory = ordinary ? std::nullopt : make_memory(size, MFD_HUGETLB | MFD_HUGE_2MB, seals);
  const bool sparse = !memory;
  if (sparse) memory = make_memory(size, 0, seals);
  if (!memory) {
    const int code = errno;
    return fail(ENOMEM,
                fmt::format("no memory for queues of {} bytes: {}; ask for fewer entries", size, std::strerror(code)));
  }
  add_chunk(std::move(memory->first), memory->second, size, sparse, std::move(*mapping));
  return {};
}

void Arena::add_chunk(message::Fd fd, std::byte* data, uint64_t size, bool sparse, Share mapping) {
  Chunk chunk;
  chunk.fd = std::move(fd);
  chunk.data = data;
  chunk.bytes = size;
  chunk.sparse = sparse;
  chunk.free.emplace(0, size);
  chunk.mapping = std::move(mapping);
  chunk.watch = std::make_unique<FaultWatch>(chunk.data, size, kHugePage);
  if (rules_.waits != nullptr) chunk.watch->note_waits(rules_.waits, size);
  chunks_.push_back(std::move(chunk));
}

std::vector<Arena::NewChunk> Arena::chunks() const {
  const std::scoped_lock lock(mutex_);
  std::vector<NewChunk> all;
  for (const Chunk& chunk : chunks_) {
    all.push_back({static_cast<uint32_t>(all.size()), chunk.bytes, chunk.fd.get()});
  }
  return all;
}

Result<void> Arena::adopt(message::Fd fd, uint64_t bytes) {
  struct stat file{};
  constexpr int kNoResize = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kNoResize) != kNoResize || fstat(fd.get(), &file) != 0 || bytes == 0 ||
      static_cast<uint64_t>(file.st_size) != bytes) {
    return fail(EINVAL, fmt::format("cannot take over queues of {} bytes: the descriptor is no memfd of that size with "
                                    "F_SEAL_SHRINK and F_SEAL_GROW",
                                    bytes));
  }
  auto mapping = take_mappings(1);
  if (!mapping) return std::unexpected(mapping.error());
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    const int code = errno;
    return fail(code, fmt::format("cannot take over queues of {} bytes: {}", bytes, std::strerror(code)));
  }
  const std::scoped_lock lock(mutex_);
  const bool sparse = static_cast<std::size_t>(file.st_blksize) < kHugePage;
  add_chunk(std::move(fd), static_cast<std::byte*>(data), bytes, sparse, std::move(*mapping));
  sent_ = chunks_.size();
  return {};
}

void Arena::expect(std::span<const message::Place> places) {
  const std::scoped_lock lock(mutex_);
  expected_.assign(places.begin(), places.end());
}

Result<std::unique_ptr<control::QueueMemory>> Arena::allocate_expected(std::size_t bytes, Charge charge) {
  const message::Place place = expected_.front();
  expected_.pop_front();
  const bool known = place.chunk < chunks_.size() && place.bytes == bytes && place.offset % kGrain == 0;
  auto* const free = known ? &chunks_[place.chunk].free : nullptr;
  auto hole = known ? free->upper_bound(place.offset) : decltype(free->begin()){};
  const bool any = known && hole != free->begin();
  if (any) --hole;
  if (!any || bytes > hole->second || place.offset - hole->first > hole->second - bytes) {
    return fail(EINVAL, fmt::format("cannot take over {} bytes of queues at {} of piece {}, for which {} were named: "
                                    "others are there, or it is no such place",
                                    bytes, place.offset, place.chunk, place.bytes));
  }
  const auto [first, size] = *hole;
  free->erase(hole);
  if (place.offset > first) free->emplace(first, place.offset - first);
  const uint64_t end = place.offset + bytes;
  if (first + size > end) free->emplace(end, first + size - end);
  const Chunk& chunk = chunks_[place.chunk];
  if (auto guarded = guard(chunk, place.offset, bytes); !guarded) return std::unexpected(guarded.error());
  used_ += bytes;
  return std::make_unique<ArenaMemory>(shared_from_this(), place.chunk, place.offset, chunk.data + place.offset, bytes,
                                       std::move(charge));
}

void Arena::give_back(uint32_t index, uint64_t offset, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  used_ -= bytes;
  auto& free = chunks_[index].free;
  auto next = free.lower_bound(offset);
  if (next != free.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free.emplace(offset, bytes);
}

std::vector<Arena::NewChunk> Arena::take_new_chunks() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t index = rules_.seal ? sent_ : 0; index > 0 && !chunks_[index - 1].sealed; --index) {
    Chunk& chunk = chunks_[index - 1];
    // Linux before 5.1 has no such seal, and says EINVAL.
    chunk.unsealable = fcntl(chunk.fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0 && errno == EPERM;
    chunk.sealed = true;
  }
  std::vector<NewChunk> fresh;
  for (; sent_ < chunks_.size(); ++sent_) {
    const Chunk& chunk = chunks_[sent_];
    fresh.push_back({static_cast<uint32_t>(sent_), chunk.bytes, chunk.fd.get()});
  }
  return fresh;
}

bool Arena::broken() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(chunks_, [](const Chunk& chunk) { return chunk.watch->broken(); });
}

bool Arena::unsealable() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(chunks_, &Chunk::unsealable);
}

bool Arena::punchable() const {
  const std::scoped_lock lock(mutex_);
  return !rules_.seal && std::ranges::any_of(chunks_, &Chunk::sparse);
}

uint64_t Arena::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

}  // namespace uroce::service
