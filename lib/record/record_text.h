// A record as text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "record/format.h"

namespace uroce::record {

struct Described {
  std::string text{};             ///< what its kind does not say already; without frames, which frames_of() has
  std::optional<uint32_t> qpn{};  ///< the queue pair that it is about; none where it is about no single one
};
/// Throws Stop.
Described describe(const Record& record);

/// The peers of a recording's queue pairs, so that packets which say only where they go belong to a queue pair, too.
class Peers {
 public:
  void note(const Record& record);
  /// Is the packet, which the engine got (`in`) or sent, the queue pair's?
  bool concerns(uint32_t qpn, const wire::Packet& packet, bool in) const;

 private:
  std::map<uint32_t, uint32_t> peers_;  // QPNs
};

}  // namespace uroce::record
