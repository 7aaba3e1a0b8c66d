// The queues of a program, as the validator knows them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <uroce/types.h>

#include "validate/buffers.h"
#include "validate/payload.h"
#include "validate/regions.h"

namespace uroce::validate {

/// An object's address in the program.
using Id = const void*;

struct CqFacts {
  Id device = nullptr;
  uint32_t number = 0;
  uint32_t entries = 0;  ///< as asked for
  bool may_overrun = false;
};

struct SrqFacts {
  Id device = nullptr;
  uint32_t number = 0;
  Id domain = nullptr;
  uint32_t max_sge = 0;
  Id cq = nullptr;  ///< of an XRC queue
};

struct QpFacts {
  Id device = nullptr;
  uint32_t number = 0;
  QpType type = QpType::rc;
  QpCap cap{};
  bool signal_all = false;
  Id domain = nullptr;
  Id send_cq = nullptr;
  Id recv_cq = nullptr;
  Id srq = nullptr;
  uint32_t datagram_limit = UINT32_MAX;    ///< bytes of a datagram
  std::optional<uint64_t> operations{};    ///< declared by send_ops_flags: a bit for each WrOpcode
  std::optional<uint8_t> max_rd_atomic{};  ///< where the program has set it
};

/// A request in flight: posted, and no completion was polled that ends it.
struct Pending {
  uint64_t wr_id = 0;
  bool signalled = false;
  uint32_t ah = 0;
  std::vector<uint32_t> keys;
  std::vector<Buffers::Held> written;
  std::optional<Payload> payload;
};

struct Cq {
  CqFacts facts;
  uint64_t outstanding = 0;  ///< completions that may come, without those of shared receive queues
};

struct Srq {
  SrqFacts facts;
  std::deque<Pending> receives;
};

struct Qp {
  QpFacts facts;
  QpState state = QpState::reset;
  bool failed = false;  ///< a completion told so
  std::deque<Pending> sends, receives;

  Owner owner() const { return {facts.device, facts.domain}; }
  /// True where the device may work on its requests.
  bool active() const { return !failed && state != QpState::reset && state != QpState::error; }
};

}  // namespace uroce::validate
