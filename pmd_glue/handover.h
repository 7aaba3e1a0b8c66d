// Frames that belong to another engine of the device: one ring per engine, many producers, one consumer.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "pmd_glue/waker.h"

struct rte_mbuf;
struct rte_ring;

namespace uroce::glue {

class Handover {
 public:
  /// `wakers`: of the worker that runs each engine, 1..64; they outlive all calls of put(). `name` is unique in the
  /// process. Errors: ENOMEM.
  static Result<std::unique_ptr<Handover>> make(const std::string& name, std::vector<Waker*> wakers, int socket);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// The engine that serves a QPN, from the index in its low bits. Engine 0 takes indices that no engine has, and
  /// counts an unknown QP.
  uint32_t engine_of(uint32_t qpn) const {
    const uint32_t index = qpn & (std::bit_ceil(engines()) - 1);
    return index < engines() ? index : 0;
  }
  /// The engines that get a frame for `qpn`, one bit for each; all engines for multicast.
  uint64_t targets_of(uint32_t qpn) const {
    return qpn == kMulticastQpn ? UINT64_MAX >> (64 - engines()) : uint64_t{1} << engine_of(qpn);
  }
  uint32_t engines() const { return static_cast<uint32_t>(rings_.size()); }
  /// Why a frame is handed over: it names one of the engine's queue pairs; it was received, and a rule or sniffers
  /// want it there; it was sent to a rule of this device; it is a sniffers' copy of a frame that was sent.
  enum class For : uint8_t { queue_pair, rule_and_sniffers, rule, sniffers };
  /// Any engine's thread. True when `mbuf` was taken; `engine` is woken if it sleeps. Copies for sniffers leave half of
  /// the room to other frames.
  bool put(uint32_t engine, rte_mbuf* mbuf, For why = For::queue_pair);
  /// The engine's own thread. Returns how many were taken; why[i] is for out[i], where `why` is not empty.
  uint32_t take(uint32_t engine, std::span<rte_mbuf*> out, std::span<For> why = {});
  bool empty(uint32_t engine) const;
  /// Frames that wait for an engine. Any thread.
  uint32_t waiting(uint32_t engine) const;
  /// Where an engine's frames wait.
  const rte_ring& ring(uint32_t engine) const { return *rings_[engine]; }
  Waker& waker(uint32_t engine) const { return *wakers_[engine]; }

 private:
  explicit Handover(std::vector<Waker*> wakers) : wakers_(std::move(wakers)) {}
  std::vector<Waker*> wakers_;    // by engine
  std::vector<rte_ring*> rings_;  // by engine
};

}  // namespace uroce::glue
