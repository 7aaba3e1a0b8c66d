// The records of a recording, in their order. Only the program that wrote one reads it, so structures are stored as
// they stand in memory; `kFormat` and `build_of()` tell another program's.
#pragma once

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
  // A keyframe.
  engine,    ///< its configuration and its clients; the first
  key_srq,   ///< a shared receive queue
  key_qp,    ///< a queue pair
  key_end,   ///< what waits and runs; the last
  key_more,  ///< more of the state in the record before
  end,       ///< of a call, or of what control did
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
  region,  ///< one at the first look-up of its key; small kRegionsGone: all must be looked up anew
  check,   ///< of another key, a look-up that failed or found no usual memory
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
  srq,       ///< a shared receive queue is used for the first time, or has another ring
  srq_gone,  ///< nothing uses it any more
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

inline constexpr uint32_t kFormat = 3;
/// Differs between programs whose structures may differ.
uint64_t build_of();
/// Of Kind::engine, in Head::small.
inline constexpr uint16_t kWithHandles = 1;  ///< the engine has address handles
inline constexpr uint16_t kAfterGap = 2;     ///< what stands before it does not lead here

/// Of Kind::region, likewise.
inline constexpr uint16_t kRegionsGone = 1;

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
