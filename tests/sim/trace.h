// Says what happens to frames, a line each.
#pragma once

#include <cstdio>
#include <string_view>

#include "tests/sim/events.h"
#include "tests/sim/frames.h"

namespace uroce::sim {

class Trace {
 public:
  /// `out` stays open meanwhile.
  Trace(const EventQueue& events, std::FILE* out) : events_(events), out_(out) {}
  /// `what`, e.g. "sent", befell `frame` at `where`.
  void line(std::string_view where, std::string_view what, const FabricFrame& frame) const;

 private:
  const EventQueue& events_;
  std::FILE* out_;
};

}  // namespace uroce::sim
