// Two hosts with a connection manager each. MADs between them are neither lost nor delayed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/support/cm_host.h"

namespace uroce::cm {

using test::bytes_of;
using test::CmHost;
using test::text_of;

inline constexpr uint64_t kService = 0x1061c06;

struct CmPair {
  CmHost active{Gid::from_ipv4(0x0a000001), {.ca_guid = 0x11, .seed = 1}};
  CmHost passive{Gid::from_ipv4(0x0a000002), {.ca_guid = 0x22, .seed = 2}};
  Nanos now = std::chrono::hours(24 * 30);

  CmRequest request() const {
    return {.service_id = kService, .path = {.sgid = active.gid, .dgid = passive.gid}, .qpn = 0x11, .psn = 100};
  }
  CmReply reply() const { return {.qpn = 0x22, .psn = 200}; }

  void run() { test::exchange(active, passive, now); }

  /// Advances the time from deadline to deadline. The MADs sent at each arrive at once.
  void pass(Nanos time) {
    const Nanos end = now + time;
    while (true) {
      const Nanos next = std::min(active.cm.next_deadline(), passive.cm.next_deadline());
      if (next > end) break;
      now = std::max(now, next);
      active.poll(now);
      passive.poll(now);
      run();
    }
    now = end;
  }

  /// The ids of a connection whose request is not answered yet.
  std::pair<uint32_t, uint32_t> requested() {
    static_cast<void>(passive.cm.listen(kService, 10, 1));
    const auto a = active.connect(request(), now);
    EXPECT_TRUE(a);
    run();
    const CmMessage requested = passive.take_event();
    EXPECT_EQ(requested.kind, CmEventKind::request);
    return {*a, requested.id};
  }

  std::pair<uint32_t, uint32_t> connected() {
    const auto [a, b] = requested();
    EXPECT_TRUE(passive.accept(b, reply(), now));
    run();
    EXPECT_EQ(active.take_event().kind, CmEventKind::reply);
    EXPECT_TRUE(active.ready(a, {}, now));
    run();
    EXPECT_EQ(passive.take_event().kind, CmEventKind::established);
    return {a, b};
  }

  void expect_nothing_left() {
    for (CmHost* host : {&active, &passive}) {
      EXPECT_EQ(host->cm.size(), 0u);
      EXPECT_EQ(host->events.size(), 0u);
      EXPECT_EQ(host->sent.size(), 0u);
      EXPECT_EQ(host->cm.next_deadline(), kNever);
      EXPECT_EQ(host->cm.counters().malformed.get(), 0u);
      EXPECT_EQ(host->cm.counters().unknown_id.get(), 0u);
      EXPECT_EQ(host->cm.counters().out_of_state.get(), 0u);
    }
  }
};

}  // namespace uroce::cm
