// Connections of an estate with wrong bytes: a connection manager refuses them, or runs with them to their end.
#include <array>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "message/codec.h"
#include "service/cm_rows.h"
#include "tests/unit/cm/cm_pair.h"

namespace uroce::service {
namespace {

using namespace std::chrono_literals;

/// Brings the pair to a state of its connection.
using Bring = std::function<void(cm::CmPair&)>;

std::vector<Bring> states() {
  using cm::CmPair;
  return {
      [](CmPair& p) { (void)p.active.connect(p.request(), p.now); },
      [](CmPair& p) { (void)p.requested(); },
      [](CmPair& p) { p.passive.cm.delivered(p.requested().second); },
      [](CmPair& p) { (void)p.passive.accept(p.requested().second, p.reply(), p.now); },
      [](CmPair& p) {
        (void)p.passive.accept(p.requested().second, p.reply(), p.now);
        p.run();
      },
      [](CmPair& p) { (void)p.connected(); },
      [](CmPair& p) { (void)p.active.disconnect(p.connected().first, {}, p.now); },
      [](CmPair& p) {
        (void)p.passive.disconnect(p.connected().second, {}, p.now);
        p.run();
      },
      [](CmPair& p) { p.passive.destroy(p.requested().second, p.now); },
      [](CmPair& p) {
        (void)p.passive.cm.listen(cm::kService, 10, 1);
        cm::CmRequest request = p.request();
        request.type = QpType::ud;
        (void)p.active.connect(request, p.now);
        p.run();
      },
  };
}

/// Makes every call for the connection, and lets its timers run out, while the peer answers.
void live(cm::CmHost& heir, cm::CmHost& peer, uint32_t id, Nanos now) {
  heir.cm.delivered(id);
  (void)heir.accept(id, {.qpn = 0x33, .psn = 1}, now);
  (void)heir.ready(id, {}, now);
  (void)heir.notify_established(id, now);
  test::exchange(heir, peer, now);
  for (const auto step : {1ms, 1000ms, 10000ms, 200000ms}) {
    now += step;
    heir.poll(now);
    peer.poll(now);
    test::exchange(heir, peer, now);
  }
  (void)heir.disconnect(id, {}, now);
  (void)heir.reject(id, cm::RejReason::consumer_reject, {}, {}, now);
  heir.destroy(id, now);
  for (int i = 0; i < 40 && heir.cm.size() != 0; ++i) {
    now += std::chrono::hours(6);
    heir.poll(now);
  }
  EXPECT_EQ(heir.cm.size(), 0u) << cm::name(heir.cm.snapshot(now).at(0).c.state);
}

TEST(ForgedConnections, EndLikeOthers) {
  std::size_t taken = 0, refused = 0;
  for (const Bring& bring : states()) {
    for (const bool of_active : {true, false}) {
      cm::CmPair first;
      bring(first);
      for (const auto& one : (of_active ? first.active : first.passive).cm.snapshot(first.now)) {
        std::vector<std::byte> good;
        message::encode(good, CmConnectionRow{one});
        for (std::size_t at = 0; at < good.size(); ++at) {
          for (const uint8_t wrong : {0x01, 0x82, 0xff}) {
            std::vector<std::byte> bad = good;
            bad[at] ^= std::byte{wrong};
            CmConnectionRow row;
            if (!message::decode(std::span<const std::byte>(bad), row)) continue;
            cm::CmPair pair;
            bring(pair);
            cm::CmHost& peer = of_active ? pair.passive : pair.active;
            cm::CmHost heir((of_active ? pair.active : pair.passive).gid, {.ca_guid = 1, .seed = 9});
            const bool adopted = heir.cm.adopt(row.connection, pair.now).has_value();
            ++(adopted ? taken : refused);
            if (adopted) live(heir, peer, row.connection.c.id, pair.now);
          }
        }
      }
    }
  }
  EXPECT_GT(taken, 1000u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace uroce::service
