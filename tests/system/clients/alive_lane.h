// One direction-less lane of alive.cc: a queue pair at each side, over which both sides send and check all that its
// kind can do.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace alive {

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "alive: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T* must(T* made, const char* what) {
  if (made == nullptr) {
    std::perror(what);
    std::exit(1);
  }
  return made;
}
inline void must(int code, const char* what) {
  if (code != 0) die(std::string(what) + ": error " + std::to_string(code));
}

enum class Kind : uint32_t { rc, srq, xrc, uc, ud };

/// A lane, as one side tells the other.
struct LaneAddress {
  uint32_t qpn = 0, target_qpn = 0, srqn = 0, rkey = 0, psn = 0, pad = 0;
  uint64_t memory = 0;
};

/// The sums of a lane, told at the end.
struct Totals {
  uint64_t messages = 0, received = 0, adds = 0, swaps = 0, reads = 0;
};

/// Shared by all lanes of this side.
struct Host {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;
  uint8_t gid_index = 0;
  ibv_gid gid{}, remote_gid{};
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t timeout = 14;
};

class Lane {
 public:
  static constexpr uint32_t kDepth = 8;      // requests under way
  static constexpr uint32_t kReceives = 32;  // messages that the peer may be ahead of what we have checked
  // Nobody waits for the receiver of an unreliable lane, and a busy machine may keep it from its CPU for seconds.
  static constexpr uint32_t kPatientReceives = 2048;
  static constexpr uint32_t kMost = 6000;  // bytes of a message, a small part of the messages for UD
  static constexpr uint32_t kGrh = 40;

  Lane(Host& host, Kind kind, uint32_t number, bool first_side);
  Kind kind() const { return kind_; }
  bool reliable() const { return kind_ <= Kind::xrc; }
  uint32_t receives() const { return reliable() ? kReceives : kPatientReceives; }
  LaneAddress address() const;
  void connect(const LaneAddress& remote);

  /// Posts what may be sent now. Unreliable lanes send one message a call.
  void send();
  void completed(const ibv_wc& wc);
  void received(const ibv_wc& wc, uint32_t slot, const uint8_t* bytes);
  /// The receive of wc is this lane's own; the SRQ's belong to all.
  const uint8_t* receive_slot(uint32_t slot) const { return memory_.data() + receive_at(slot); }
  void post_receive(uint32_t slot);

  uint32_t qpn() const { return qp_->qp_num; }
  uint32_t receiving_qpn() const { return target_ != nullptr ? target_->qp_num : qp_->qp_num; }
  bool idle() const { return under_way_ == 0; }
  const Totals& totals() const { return totals_; }
  /// At the end, when nothing is under way: what the peer did fits what we saw. False: not all has come.
  bool agrees(const Totals& peer) const;

 private:
  enum class Op : uint32_t { send, write_imm, read, add, swap };
  struct Request {
    Op op;
    uint64_t number;
    uint32_t length;
    std::chrono::steady_clock::time_point posted;
  };
  // The lane's memory: sending slots, receiving slots, the window of WRITEs, landing places of READs, of atomics, and
  // last what the peer READs and adds to.
  static constexpr std::size_t kSlot = kMost + 64;
  std::size_t send_at(uint64_t n) const { return n % kDepth * kSlot; }
  std::size_t receive_at(uint32_t slot) const { return (kDepth + slot) * kSlot; }
  std::size_t window_at(uint64_t message) const { return (kDepth + receives() + message % receives()) * kSlot; }
  std::size_t landing_at(uint64_t n) const { return (kDepth + 2 * receives() + n % kDepth) * kSlot; }
  std::size_t result_at(uint64_t n) const { return (2 * kDepth + 2 * receives()) * kSlot + n % kDepth * 8; }
  std::size_t shared_at() const { return (2 * kDepth + 2 * receives()) * kSlot + kDepth * 8; }
  static constexpr std::size_t kShared = 4096;  // checked 8, added 8, swapped 8, a pattern

  uint32_t length_of(uint64_t message, bool ours) const;
  uint8_t byte_of(uint64_t message, bool ours, std::size_t at) const;
  void fill(uint8_t* to, uint64_t message, uint32_t length);
  void check(const uint8_t* bytes, uint64_t message, uint32_t length, const char* what) const;
  void check_pattern(const uint8_t* bytes, std::size_t from, std::size_t length) const;
  void post(Op op);
  uint64_t* shared() { return reinterpret_cast<uint64_t*>(memory_.data() + shared_at()); }
  [[noreturn]] void fail(const std::string& what) const;

  Host& host_;
  const Kind kind_;
  const uint32_t number_;
  const bool first_side_;
  std::vector<uint8_t> memory_;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;      // sends
  ibv_qp* target_ = nullptr;  // XRC: receives
  ibv_srq* srq_ = nullptr;    // XRC
  ibv_ah* ah_ = nullptr;
  LaneAddress remote_{};
  Request requests_[kDepth]{};
  uint64_t posted_ = 0, under_way_ = 0;
  uint64_t peer_checked_ = 0;  // messages that the peer has checked, as we read it
  uint64_t lost_ = 0;
  Totals totals_;
};

}  // namespace alive
