// The memory of a recording: parts that are written in a ring, so that it always has the newest.
//
// Records go on from one part to the next, and none is divided. In each part, or soon behind it, a keyframe begins,
// from which a replay can start. A part that is being overwritten says so first, so the memory can be read whenever the
// process ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "record/format.h"

namespace uroce::record {

/// The beginning of the memory; the parts follow.
struct FileHead {
  static constexpr uint64_t kMagic = 0x32636572656f7275;  // "uroerec2"
  uint64_t magic = kMagic;
  uint32_t format = kFormat;
  uint32_t pid = 0;
  uint64_t build = 0;
  uint64_t part_bytes = 0;  ///< with its head
  uint32_t parts = 0;
  uint32_t engine = 0;
  std::atomic<uint32_t> full{0};    ///< 1: the engine went on, and nothing more was recorded
  std::atomic<uint32_t> closed{0};  ///< 1: the process ended as it should
  char device[32]{};
};
static_assert(sizeof(FileHead) % 8 == 0);

/// The beginning of a part; the records follow.
struct PartHead {
  std::atomic<uint64_t> number{0};    ///< from 1 on, in the order of writing; 0: it is empty or being overwritten
  std::atomic<uint64_t> used{0};      ///< bytes of records that are whole
  std::atomic<uint64_t> keyframe{0};  ///< where its first keyframe begins, plus 1; 0: it has none
  uint64_t reserved = 0;
};
static_assert(sizeof(PartHead) % 8 == 0);

inline constexpr uint32_t kParts = 4;
/// Makes a head, in memory of zeros. Each part has at least 4096 bytes.
FileHead& lay_out(std::span<std::byte> memory, uint32_t parts = kParts);

/// A part that is used, and where it is.
struct PartPlace {
  uint64_t number = 0;
  std::size_t at = 0;  ///< in the memory
  std::span<const std::byte> part;
};
/// A part as a reader found it. It stays so until it is overwritten.
struct SeenPart {
  uint64_t number = 0;
  uint64_t keyframe = 0;               ///< as in its head
  std::span<const std::byte> records;  ///< those that were whole
  const PartHead* head = nullptr;

  /// Has nothing overwritten them so far?
  bool stands() const;
};
/// The newest first. `memory` may be written meanwhile. In this order a reader misses no record between two: a part has
/// all its records before the next one begins. nullopt: the memory's head makes no sense.
std::optional<std::vector<PartPlace>> find_parts(std::span<const std::byte> memory);
/// nullopt: another one has taken its place, or it makes no sense.
std::optional<SeenPart> look_at_part(const PartPlace& place);

/// The records in the memory, from the oldest keyframe on.
struct Collected {
  std::vector<std::byte> records;
  std::vector<std::size_t> keyframes;  ///< where each begins
};
/// `memory` may be written meanwhile. nullopt: its head makes no sense.
std::optional<Collected> collect(std::span<const std::byte> memory);

/// Writes records. A record counts once it is whole.
class Writer {
 public:
  /// `memory`: laid out.
  explicit Writer(std::span<std::byte> memory);

  /// Nothing more is written, ever.
  bool stopped() const { return stopped_; }
  void stop() { lost_ = stopped_ = true; }
  /// Bytes written, also where later ones have taken their place.
  uint64_t written() const { return written_ + static_cast<uint64_t>(at_ - begin_); }

  /// From now on no record takes the place of an older one: where there is no room, records are left out. Until
  /// unpin(), which any thread may call.
  void pin() { pinned_.store(true, std::memory_order_relaxed); }
  void unpin() { pinned_.store(false, std::memory_order_release); }

  /// Should a keyframe be written now?
  bool wants_keyframe() const { return (number_ > key_end_ || lost_) && !stopped_ && !blocked(); }
  /// Until end_keyframe(), records are a keyframe. True: records before it are missing.
  bool begin_keyframe();
  /// False: the memory is too small for it, and nothing more is written; or it was pinned.
  bool end_keyframe();

  /// A record of these parts, in a row: trivially copyable values, and spans of bytes.
  template <class... Parts>
  void put(Kind kind, uint16_t small, const Parts&... parts) {
    std::byte* to = start((size_of(parts) + ... + 0));
    if (to == nullptr) return;
    ((to = append(to, parts)), ...);
    finish(kind, small, to);
  }
  /// Does a record of this size go where the last one is?
  bool fits(std::size_t bytes) const {
    return static_cast<std::size_t>(end_ - at_) >= sizeof(Head) + padded(bytes) && !lost_;
  }
  /// Room for a record of at most `most` bytes, or nullptr; then finish() at its end.
  std::byte* start(std::size_t most) {
    if (!fits(most) && !go_on(most)) [[unlikely]]
      return nullptr;
    return at_ + sizeof(Head);
  }
  void finish(Kind kind, uint16_t small, const std::byte* end) {
    const auto bytes = static_cast<std::size_t>(end - at_) - sizeof(Head);
    const Head head{static_cast<uint32_t>(bytes), kind, small};
    std::memcpy(at_, &head, sizeof head);
    at_ += sizeof(Head) + padded(bytes);
    part_->used.store(static_cast<uint64_t>(at_ - begin_), std::memory_order_release);
  }

  template <class T>
  static std::byte* append(std::byte* to, const T& value) {
    if constexpr (std::is_convertible_v<T, std::span<const std::byte>>) {
      const std::span<const std::byte> bytes = value;
      if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
      return to + bytes.size();
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      std::memcpy(to, &value, sizeof value);
      return to + sizeof value;
    }
  }

 private:
  template <class T>
  static std::size_t size_of(const T& value) {
    if constexpr (std::is_convertible_v<T, std::span<const std::byte>>) {
      return std::span<const std::byte>(value).size();
    } else {
      return sizeof value;
    }
  }
  // Is every part full, and pinned?
  bool blocked() const { return lost_ && pinned_.load(std::memory_order_acquire); }
  /// Begins the next part. False: the record is too large for one, or the last keyframe would go.
  bool go_on(std::size_t most);
  void open(uint64_t number);

  FileHead& head_;
  std::byte* parts_;
  PartHead* part_ = nullptr;
  std::byte* begin_ = nullptr;  // of the part's records
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  uint64_t written_ = 0;
  uint64_t number_ = 0;     // of the part
  uint64_t key_begin_ = 0;  // the part in which the newest whole keyframe begins
  uint64_t key_end_ = 0;    // and the one in which it ends
  uint64_t new_key_ = 0;    // the part in which the one begins that is being written
  bool in_keyframe_ = false;
  bool lost_ = false;  // since some record had no place
  bool stopped_ = false;
  std::atomic<bool> pinned_{false};
};

}  // namespace uroce::record
