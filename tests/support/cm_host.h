// One host's connection manager, and what its actions were, for tests to look at and to pass on.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/cm_driver.h"

namespace uroce::test {

using SentMad = cm::OutgoingMad;

class CmHost : public CmDriver<CmHost> {
 public:
  explicit CmHost(const Gid& gid_, cm::IbCmConfig config = {}) : CmDriver(config), gid(gid_) {}

  void send(const cm::CmPath& path, const cm::Mad& mad) { sent.push_back({path, mad}); }
  void on_event(cm::CmMessage message) { events.push_back(std::move(message)); }

  /// The next event; a default one with id 0 when there is none.
  cm::CmMessage take_event() {
    if (events.empty()) return {};
    cm::CmMessage event = std::move(events.front());
    events.pop_front();
    return event;
  }

  const Gid gid;
  std::deque<SentMad> sent;
  std::deque<cm::CmMessage> events;
};

/// Carries what each has to say to the other until both are silent.
inline void exchange(CmHost& a, CmHost& b, Nanos now) {
  while (!a.sent.empty() || !b.sent.empty()) {
    for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      while (!from->sent.empty()) {
        const SentMad next = from->sent.front();
        from->sent.pop_front();
        to->on_mad(next.path.sgid, next.path.dgid, next.mad, now);
      }
    }
  }
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Private data as received fills its field; this is what was put in front.
inline std::string text_of(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

}  // namespace uroce::test
