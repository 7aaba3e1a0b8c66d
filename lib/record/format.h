// The records of a recording, in their order. Only the program that wrote one reads it, so structures are stored as
// they stand in memory; `kFormat` and `build_of()` tell another program's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace uroce::record {

/// The content of a record. A call of the engine goes on to its `end`; calls nest where a frame stays in the thread.
enum class Kind : uint16_t {
  none,
  engine,  ///< its configuration; the first
  end,     ///< of a call, or of what control did
  // Calls.
  frames,
  local_frames,
  raw_frames,
  poll,
  idle,  ///< the last of some polls that found nothing
  // Met by a call.
  bad_icrc,  ///< a frame of this call, by its place
  doorbell,
  sends,  ///< work requests, copied
  recvs,
  srq_recvs,
  srq_limit,
  room,    ///< of the sink
  check,   ///< a look-up of a key that failed, or found no usual memory
  key,     ///< the result of another operation on a key
  taken,   ///< bytes of memory that others write
  handle,  ///< an address handle as it was found
  // Results of a call.
  sent,
  completion,
  event,
  // Control.
  attach,
  detach,
  modify,
  adopt,
  adopt_unknown,
  attach_ring,
  detach_ring,
  srq,  ///< a shared receive queue is used for the first time, or has another ring
  attach_srq,
  detach_srq,
  gids,
  whole_writes,
  redirect,
  groups,
  flows,
  count,
};
/// The kind in words, for a reader.
std::string_view name_of(Kind kind);

/// Before each record; the next one follows its bytes, at a multiple of 8.
struct Head {
  uint32_t bytes = 0;  ///< behind this
  Kind kind = Kind::none;
  uint16_t small = 0;  ///< by kind
};
static_assert(sizeof(Head) == 8);

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

inline constexpr uint32_t kFormat = 1;
/// Differs between programs whose structures may differ.
uint64_t build_of();

/// The beginning of a file.
struct FileHead {
  static constexpr uint64_t kMagic = 0x31636572656f7275;  // "uroerec1"
  uint64_t magic = kMagic;
  uint32_t format = kFormat;
  uint32_t pid = 0;
  uint64_t build = 0;
  uint64_t capacity = 0;          ///< bytes of records that fit
  std::atomic<uint64_t> used{0};  ///< bytes of records that are whole
  std::atomic<uint64_t> full{0};  ///< 1: the engine went on, and its records did not fit
  char device[32]{};
  uint32_t engine = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(FileHead) % 8 == 0);

/// Writes records into memory, until it is full. A record counts once it is whole.
class Writer {
 public:
  /// `memory`: a FileHead, and the records behind it.
  explicit Writer(std::span<std::byte> memory) : head_(*reinterpret_cast<FileHead*>(memory.data())) {
    at_ = begin_ = memory.data() + sizeof(FileHead);
    end_ = memory.data() + memory.size();
  }
  bool full() const { return full_; }
  /// No more is written.
  void stop() { full_ = true; }
  uint64_t used() const { return static_cast<uint64_t>(at_ - begin_); }

  /// A record of these parts, in a row: trivially copyable values, and spans of bytes.
  template <class... Parts>
  void put(Kind kind, uint16_t small, const Parts&... parts) {
    std::byte* to = start((size_of(parts) + ... + 0));
    if (to == nullptr) return;
    ((to = append(to, parts)), ...);
    finish(kind, small, to);
  }
  /// Room for a record of at most `most` bytes, or nullptr; then finish() at its end.
  std::byte* start(std::size_t most) {
    if (static_cast<std::size_t>(end_ - at_) < sizeof(Head) + padded(most) || full_) [[unlikely]] {
      full_ = true;
      head_.full.store(1, std::memory_order_relaxed);
      return nullptr;
    }
    return at_ + sizeof(Head);
  }
  void finish(Kind kind, uint16_t small, const std::byte* end) {
    const auto bytes = static_cast<std::size_t>(end - at_) - sizeof(Head);
    const Head head{static_cast<uint32_t>(bytes), kind, small};
    std::memcpy(at_, &head, sizeof head);
    at_ += sizeof(Head) + padded(bytes);
    head_.used.store(used(), std::memory_order_release);
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

  FileHead& head_;
  std::byte* begin_;
  std::byte* at_;
  std::byte* end_;
  bool full_ = false;
};

/// Why a replay ends before the end of its recording.
struct Stop {
  enum class Why : uint8_t {
    over,       ///< the recording ends here, within a call
    malformed,  ///< no recorder has written this
    diverged,   ///< the engine did something else
  };
  Why why;
  std::string text;
};

/// A record as it is read.
struct Record {
  Kind kind = Kind::none;
  uint16_t small = 0;
  std::span<const std::byte> bytes{};
  uint64_t number = 0;  ///< from 1
};

/// The parts of a record. Throws Stop where they are missing.
class Parts {
 public:
  explicit Parts(const Record& record) : record_(record), left_(record.bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto from = bytes(sizeof(T));
    // A T may have no default constructor, and a bool in it any byte: the checksum of the file says that none is wrong.
    alignas(T) std::byte room[sizeof(T)];
    std::memcpy(room, from.data(), sizeof(T));
    return *reinterpret_cast<const T*>(room);
  }
  std::span<const std::byte> bytes(std::size_t n);
  std::span<const std::byte> rest() { return bytes(left_.size()); }
  bool empty() const { return left_.empty(); }

 private:
  const Record& record_;
  std::span<const std::byte> left_;
};

/// Reads records one after the other.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> records) : left_(records) { read(); }

  /// Is there no other? Also where what follows makes no sense.
  bool at_end() const { return next_.kind == Kind::none; }
  const Record& peek() const { return next_; }
  /// Throws Stop at the end.
  Record take();
  /// Throws Stop where the end makes no sense.
  void check_end() const;

 private:
  void read();

  std::span<const std::byte> left_;
  Record next_{};
  bool broken_ = false;
};

}  // namespace uroce::record
