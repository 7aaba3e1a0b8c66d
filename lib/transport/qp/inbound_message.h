// The message that a responder is receiving: a SEND or a WRITE of which packets are still to come, and the receive that
// it has taken.
#pragma once

#include <cstdint>

#include "wire/headers.h"
#include "wire/opcode.h"

namespace uroce::transport {

/// A receive outlives its message when UC and UD drop the message; the next message then fills it.
class InboundMessage {
 public:
  enum class Kind : uint8_t { none, send, write };

  Kind kind() const { return kind_; }
  bool in_progress() const { return kind_ != Kind::none; }
  /// Is there no message, no receive, and no later request that waits? Then a WRITE concerns memory alone.
  bool idle() const { return kind_ == Kind::none && !recv_in_use_ && !recv_unpublished_ && !later_wait_; }
  /// IBTA vol. 1, 9.7.4.1.3: within a message only its own kind may follow; outside only a First or an Only.
  bool may_go_on_with(wire::OpFlags op) const {
    const bool first = op.has(wire::Op::first);
    switch (kind_) {
      case Kind::none: return first;
      case Kind::send: return !first && op.has(wire::Op::send);
      case Kind::write: return !first && op.has(wire::Op::write);
    }
    return false;
  }
  /// SEND: bytes placed so far. WRITE: bytes of the whole message.
  uint32_t bytes() const { return bytes_; }
  /// The message is complete, or is given up.
  void end() { kind_ = Kind::none; }

  // --- SEND -----------------------------------------------------------------------------------------------------

  void begin_send() { bytes_ = 0; }
  void add_to_send(uint32_t bytes) {
    bytes_ += bytes;
    kind_ = Kind::send;
  }

  // --- WRITE ----------------------------------------------------------------------------------------------------

  /// `reth` names the whole target, which has been checked.
  void begin_write(const wire::Reth& reth) {
    write_va_ = reth.va;
    write_left_ = reth.length;
    rkey_ = reth.rkey;
    bytes_ = reth.length;
  }
  /// 9.7.4.1.6: the packets carry exactly the length that the RETH announced.
  bool fits_reth(wire::OpFlags op, uint32_t length) const {
    return op.has(wire::Op::last) ? length == write_left_ : length < write_left_;
  }
  /// Where the next payload goes.
  uint64_t write_va() const { return write_va_; }
  uint32_t rkey() const { return rkey_; }
  void add_to_write(uint32_t bytes) {
    write_va_ += bytes;
    write_left_ -= bytes;
    kind_ = Kind::write;
  }

  // --- The receive; its entries are in QpCold -------------------------------------------------------------------

  bool recv_in_use() const { return recv_in_use_; }
  uint8_t recv_num_sge() const { return recv_num_sge_; }
  void take_recv(uint8_t num_sge) {
    recv_num_sge_ = num_sge;
    recv_in_use_ = true;
  }
  /// It is taken from a shared queue, and shared memory does not say so until the packet's end.
  void on_shared_recv() { recv_unpublished_ = true; }
  bool recv_unpublished() const { return recv_unpublished_; }
  void on_recv_published() { recv_unpublished_ = false; }
  /// The receive completes, or is forgotten.
  void drop_recv() { recv_in_use_ = false; }

  // --- Requests ahead of their turn (Recovery::requests_ahead) --------------------------------------------------

  bool later_wait() const { return later_wait_; }
  void set_later_wait(bool any) { later_wait_ = any; }

  /// Snapshots are taken between packets. Every receive is published then, so `recv_unpublished_` is not written.
  template <class Archive>
  void persist(Archive& archive) {
    auto& [va, left, bytes, key, sges, kind, in_use, unpublished, later] = *this;
    Kind of_kind = kind;
    bool has_recv = in_use;
    bool have_later = later;
    archive("write_va", va);
    archive("write_left", left);
    archive("bytes", bytes);
    archive("rkey", key);
    archive("kind", of_kind, Kind::none, Kind::write);
    archive("recv_num_sge", sges);
    archive("recv_in_use", has_recv);
    archive("later_wait", have_later);
    kind = of_kind;
    in_use = has_recv;
    later = have_later;
  }

 private:
  uint64_t write_va_ = 0;
  uint32_t write_left_ = 0;  // bytes still to come
  uint32_t bytes_ = 0;
  uint32_t rkey_ = 0;
  uint8_t recv_num_sge_ = 0;
  // In one byte, so that idle() is one comparison.
  Kind kind_ : 2 = Kind::none;
  bool recv_in_use_ : 1 = false;
  bool recv_unpublished_ : 1 = false;
  bool later_wait_ : 1 = false;
};
static_assert(sizeof(InboundMessage) == 24, "it shares a cache line with the rest of the responder");

}  // namespace uroce::transport
