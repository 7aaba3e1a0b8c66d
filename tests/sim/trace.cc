#include "tests/sim/trace.h"

#include <fmt/format.h>

#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::sim {

void Trace::line(std::string_view where, std::string_view what, const FabricFrame& frame) const {
  const auto packet = wire::parse(frame.bytes(), wire::Icrc::skip);
  const std::string text = packet ? wire::to_text(*packet) : std::string("what does not parse");
  const bool marked = packet && packet->ecn == 3;
  fmt::print(out_, "{:14.3f} us {:<16} {:<9} {}{}\n", static_cast<double>(events_.now().count()) / 1e6, where, what,
             text, marked ? " CE" : "");
}

}  // namespace uroce::sim
