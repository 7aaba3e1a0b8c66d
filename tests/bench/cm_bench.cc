// Cost of one connection on one core, in the connection managers of both ends: REQ, REP, RTU, DREQ, DREP, and
// time-wait. `open` other connections stay open meanwhile.
#include <benchmark/benchmark.h>

#include <vector>

#include "tests/support/cm_host.h"

namespace uroce {
namespace {

constexpr uint64_t kService = 0x1060001;

/// Both ends of one connection.
struct Ends {
  uint32_t active = 0;
  uint32_t passive = 0;
};

Ends set_up(test::CmHost& a, test::CmHost& b, uint32_t number, Nanos now) {
  // Queue pair numbers as a device gives them: not again soon.
  const uint32_t qpn = 2 + number % 0xfffff0;
  const auto id = a.connect(
      {.service_id = kService, .path = {.sgid = a.gid, .dgid = b.gid}, .qpn = qpn, .psn = number & 0xffffff}, now);
  test::exchange(a, b, now);
  const uint32_t request = b.take_event().id;
  static_cast<void>(b.accept(request, {.qpn = qpn}, now));
  test::exchange(a, b, now);
  const bool replied = id && a.take_event().kind == cm::CmEventKind::reply;
  if (replied) static_cast<void>(a.ready(*id, {}, now));
  test::exchange(a, b, now);
  if (b.take_event().kind != cm::CmEventKind::established) return {};
  return {*id, request};
}

void connections(benchmark::State& state) {
  test::CmHost a(Gid::from_ipv4(0x0a000001), {.seed = 1});
  test::CmHost b(Gid::from_ipv4(0x0a000002), {.seed = 2});
  static_cast<void>(b.cm.listen(kService, 128, 1));
  Nanos now{0};
  uint32_t number = 0;
  for (int64_t i = 0; i < state.range(0); ++i) set_up(a, b, number++, now);
  for (auto _ : state) {
    now += Nanos(100'000);  // 10,000 a second, of which those of the last 2.2 s rest in time-wait
    const Ends ends = set_up(a, b, number++, now);
    if (ends.passive == 0) {
      state.SkipWithError("a connection was not set up");
      break;
    }
    a.destroy(ends.active, now);
    test::exchange(a, b, now);
    b.take_event();
    b.destroy(ends.passive, now);
    a.poll(now);
    b.poll(now);
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["records"] = static_cast<double>(a.cm.size());
}
BENCHMARK(connections)->ArgName("open")->Arg(0)->Arg(10'000);

}  // namespace
}  // namespace uroce

BENCHMARK_MAIN();
