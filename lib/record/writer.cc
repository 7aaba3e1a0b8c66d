#include "record/writer.h"

#include <functional>
#include <utility>

namespace uroce::record {
namespace {

constexpr uint64_t kLeastPart = 4096;

struct Part {
  uint64_t number = 0;
  uint64_t keyframe = 0;
  std::vector<std::byte> records;
};

const PartHead& head_of(std::span<const std::byte> part) { return *reinterpret_cast<const PartHead*>(part.data()); }

// Where keyframes begin, from `from` on. Records that make no sense end it.
std::vector<std::size_t> find_keyframes(std::span<const std::byte> records, std::size_t from) {
  std::vector<std::size_t> found;
  Head head;
  for (std::size_t at = from; records.size() - at >= sizeof head; at += sizeof head + padded(head.bytes)) {
    std::memcpy(&head, records.data() + at, sizeof head);
    if (padded(head.bytes) > records.size() - at - sizeof head) break;
    if (head.kind != Kind::engine) continue;
    if ((head.small & kAfterGap) != 0) found.clear();
    found.push_back(at);
  }
  return found;
}

}  // namespace

FileHead& lay_out(std::span<std::byte> memory, uint32_t parts) {
  auto* const head = new (memory.data()) FileHead;
  head->build = build_of();
  head->parts = parts;
  head->part_bytes = (memory.size() - sizeof(FileHead)) / parts & ~uint64_t{63};
  return *head;
}

bool SeenPart::stands() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return head->number.load(std::memory_order_relaxed) == number;
}

std::optional<std::vector<PartPlace>> find_parts(std::span<const std::byte> memory) {
  if (memory.size() < sizeof(FileHead)) return std::nullopt;
  const auto& head = *reinterpret_cast<const FileHead*>(memory.data());
  const std::size_t room = memory.size() - sizeof head;
  const uint64_t part_bytes = head.part_bytes;
  const uint32_t count = head.parts;
  if (count == 0 || part_bytes < kLeastPart || part_bytes % 8 != 0 || part_bytes > room / count) {
    return std::nullopt;
  }
  std::vector<PartPlace> found;
  const auto add = [&](uint32_t i) {
    const std::size_t at = sizeof head + i * part_bytes;
    const auto part = memory.subspan(at, part_bytes);
    const uint64_t number = head_of(part).number.load(std::memory_order_acquire);
    if (number != 0) found.emplace_back(number, at, part);
    return number != 0;
  };
  // They fill in order. While the last one is empty, so are all behind another empty one.
  const bool came_round = add(count - 1);
  for (uint32_t i = 0; i + 1 < count && (add(i) || came_round); ++i) {
  }
  std::ranges::sort(found, std::greater<>(), &PartPlace::number);
  return found;
}

std::optional<SeenPart> look_at_part(const PartPlace& place) {
  const PartHead& head = head_of(place.part);
  // Before the length, which then has it.
  const uint64_t keyframe = head.keyframe.load(std::memory_order_acquire);
  const uint64_t used = head.used.load(std::memory_order_acquire);
  if (used > place.part.size() - sizeof head || keyframe > used + 1) return std::nullopt;
  const SeenPart seen{place.number, keyframe, place.part.subspan(sizeof head, used), &head};
  return seen.stands() ? std::optional(seen) : std::nullopt;
}

std::optional<Collected> collect(std::span<const std::byte> memory) {
  const auto places = find_parts(memory);
  if (!places) return std::nullopt;
  std::vector<Part> parts;
  for (const PartPlace& place : *places) {
    const auto seen = look_at_part(place);
    if (!seen) continue;
    Part part{seen->number, seen->keyframe, {seen->records.begin(), seen->records.end()}};
    if (seen->stands()) parts.push_back(std::move(part));
  }
  std::ranges::sort(parts, {}, &Part::number);
  std::size_t first = parts.size();
  while (first > 0 && (first == parts.size() || parts[first - 1].number + 1 == parts[first].number)) --first;
  while (first < parts.size() && parts[first].keyframe == 0) ++first;
  Collected all;
  if (first == parts.size()) return all;
  std::size_t begin = parts[first].keyframe - 1;
  for (; first < parts.size(); ++first) {
    all.records.insert(all.records.end(), parts[first].records.begin(), parts[first].records.end());
  }
  all.keyframes = find_keyframes(all.records, begin);
  if (!all.keyframes.empty()) begin = all.keyframes.front();
  all.records.erase(all.records.begin(), all.records.begin() + static_cast<std::ptrdiff_t>(begin));
  for (std::size_t& at : all.keyframes) at -= begin;
  return all;
}

Writer::Writer(std::span<std::byte> memory)
    : head_(*reinterpret_cast<FileHead*>(memory.data())), parts_(memory.data() + sizeof(FileHead)) {
  open(1);
}

void Writer::open(uint64_t number) {
  std::byte* const memory = parts_ + (number - 1) % head_.parts * head_.part_bytes;
  part_ = reinterpret_cast<PartHead*>(memory);
  written_ += static_cast<uint64_t>(at_ - begin_);
  at_ = begin_ = memory + sizeof(PartHead);
  end_ = memory + head_.part_bytes;
  number_ = number;
  // A reader may come at any moment.
  part_->number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  part_->used.store(0, std::memory_order_relaxed);
  part_->keyframe.store(0, std::memory_order_relaxed);
  part_->number.store(number, std::memory_order_release);
}

bool Writer::go_on(std::size_t most) {
  if (lost_) return false;
  const bool fits_a_part = sizeof(PartHead) + sizeof(Head) + padded(most) <= head_.part_bytes;
  const uint64_t next = number_ + 1;
  const bool pinned = next > head_.parts && pinned_.load(std::memory_order_acquire);
  const bool overwrites_key = next >= key_begin_ + head_.parts;
  // A large keyframe takes the place of the one before, but never more than about half of the memory: otherwise most of
  // what is recorded would be keyframes.
  const bool too_large = next - new_key_ > head_.parts / 2;
  lost_ = !fits_a_part || pinned || (in_keyframe_ ? too_large : overwrites_key);
  if (!lost_ && overwrites_key) key_begin_ = 0;
  if (!lost_) open(next);
  return !lost_;
}

bool Writer::begin_keyframe() {
  const bool gap = std::exchange(lost_, false);
  if (gap) key_begin_ = 0;
  in_keyframe_ = true;
  new_key_ = number_;
  // Where its first record goes to the next part, this stands for the beginning of that one.
  if (part_->keyframe.load(std::memory_order_relaxed) == 0) {
    part_->keyframe.store(static_cast<uint64_t>(at_ - begin_) + 1, std::memory_order_release);
  }
  return gap;
}

bool Writer::end_keyframe() {
  in_keyframe_ = false;
  if (blocked()) return false;
  if (lost_) {
    stop();
    head_.full.store(1, std::memory_order_relaxed);
    return false;
  }
  key_begin_ = new_key_;
  key_end_ = number_;
  return true;
}

}  // namespace uroce::record
