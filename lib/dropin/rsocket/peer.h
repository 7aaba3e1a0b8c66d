// The peer of a stream: the room and the credits that it has given, and the tables that each side writes to the other.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>

#include "dropin/rsocket/buffer.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// One thread at a time sends, and one handles completions and control messages. The peer may write its tables at any
/// time.
class Peer {
 public:
  /// Memory of the peer.
  struct Place {
    uint64_t address;
    uint32_t key;
  };

  /// Makes the tables that the peer writes. 0, or -1 with errno.
  int make(ibv_pd* pd, uint32_t mappings);
  void reset() { tables_.reset(); }
  /// Describes them.
  void describe(wire::Greeting& greeting) const;
  void take_greeting(const wire::Greeting& peer);

  /// It can take a message with data.
  bool has_room() const { return sent_ != limit_ && targets()[target_].length != 0; }
  /// Room for the next data. The peer may have withdrawn it: then its length is 0.
  wire::Target room() const {
    const volatile wire::Target& from = targets()[target_];
    return {from.address, from.key, from.length};
  }
  /// Data of so many bytes goes there.
  void use_room(uint32_t bytes);
  /// A message is sent.
  void use_credit() { ++sent_; }
  /// It takes messages up to this number.
  void set_limit(uint16_t limit) { limit_ = limit; }
  /// The mapping of its memory with this offset.
  std::optional<wire::Mapping> find_mapping(uint64_t offset) const;

  /// The entry of its table that describes our next receive buffer.
  Place target_place() const {
    return {remote_targets_.address + remote_target_ * sizeof(wire::Target), remote_targets_.key};
  }
  /// That entry is written.
  void target_written() {
    if (++remote_target_ >= remote_targets_.length) remote_target_ = 0;
  }
  /// The entry of its table for one of our mappings.
  Place mapping_place(uint32_t index) const {
    return {remote_mappings_ + index * sizeof(wire::Mapping), remote_targets_.key};
  }
  /// An entry of a table, in its byte order.
  template <class Entry>
  Entry as_read(const Entry& entry) const {
    return swaps_ ? wire::swapped(entry) : entry;
  }

 private:
  volatile wire::Target* targets() const { return reinterpret_cast<volatile wire::Target*>(tables_.data()); }

  Buffer tables_;  ///< written by the peer: the table of targets, then the table of mappings
  uint32_t mappings_ = 0;
  uint32_t target_ = 0;
  std::atomic<uint16_t> sent_{0};   ///< messages
  std::atomic<uint16_t> limit_{0};  ///< messages that its credits allow
  wire::Target remote_targets_;     ///< its table of our receive buffers
  uint32_t remote_target_ = 0;
  uint64_t remote_mappings_ = 0;  ///< address of its table of our mappings
  bool swaps_ = false;            ///< it has the other byte order
};

}  // namespace uroce::dropin::rsocket
