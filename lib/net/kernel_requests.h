// The parts of KernelTables share the interface, the requests to the kernel about it, and the counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <uroce/types.h>

#include "base/counter.h"
#include "base/time.h"

namespace uroce::net {

/// How long the kernel may take to answer a request.
inline constexpr Nanos kKernelAnswerTime = std::chrono::seconds(1);

/// A network interface of the kernel.
struct LinkIdentity {
  uint32_t index = 0;
  std::string name{};
  EthAddr mac{};
};

struct KernelTablesCounters {
  Counter messages;    ///< of the kernel
  Counter malformed;   ///< datagrams with a fault
  Counter overruns;    ///< messages were lost, and all tables read again
  Counter learned;     ///< neighbours that became known or changed
  Counter probes;      ///< the kernel was asked to find a neighbour
  Counter failed;      ///< the kernel gave up on a neighbour
  Counter table_full;  ///< an address or neighbour was left out, or a destination replaced
};

/// Sends requests, each with a number that its answers repeat.
class KernelRequests {
 public:
  explicit KernelRequests(std::function<void(std::span<const std::byte>)> ask) : ask_(std::move(ask)) {}
  uint32_t next_number() { return ++last_; }
  void send(std::span<const std::byte> request) const { ask_(request); }

 private:
  const std::function<void(std::span<const std::byte>)> ask_;
  uint32_t last_ = 0;
};

}  // namespace uroce::net
