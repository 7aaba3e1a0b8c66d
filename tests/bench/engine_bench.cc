// Cost of one message on one core inside the transport: post, engine, frame bytes with ICRC, the peer's engine.
// Both ends run on the measuring thread, so a rate here is for requester and responder together.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string_view>

#include "tests/bench/message_pair.h"
#include "wire/icrc.h"

namespace uroce {
namespace {

void write_messages(benchmark::State& state, Retransmission retransmission, CongestionAlgorithm congestion) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  bench::MessagePair pair({.bytes = bytes, .retransmission = retransmission, .congestion = congestion});
  uint64_t posted = 0;
  for (auto _ : state) posted += pair.round();
  state.SetItemsProcessed(static_cast<int64_t>(posted));
  state.SetBytesProcessed(static_cast<int64_t>(posted * bytes));
}
// Cost of being ready for loss and congestion when there is none.
BENCHMARK_CAPTURE(write_messages, go_back_n, Retransmission::go_back_n, CongestionAlgorithm::none)
    ->Arg(8)
    ->Arg(64)
    ->Arg(4096)
    ->Arg(65536);
BENCHMARK_CAPTURE(write_messages, selective, Retransmission::automatic, CongestionAlgorithm::none)->Arg(8)->Arg(65536);
BENCHMARK_CAPTURE(write_messages, dcqcn, Retransmission::automatic, CongestionAlgorithm::dcqcn)->Arg(8)->Arg(65536);
BENCHMARK_CAPTURE(write_messages, swift, Retransmission::automatic, CongestionAlgorithm::swift)->Arg(8)->Arg(65536);

// Between engines of one thread, without frames.
void write_locally(benchmark::State& state) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  bench::MessagePair pair({.bytes = bytes, .local = true});
  uint64_t posted = 0;
  for (auto _ : state) posted += pair.round();
  state.SetItemsProcessed(static_cast<int64_t>(posted));
  state.SetBytesProcessed(static_cast<int64_t>(posted * bytes));
}
BENCHMARK(write_locally)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace uroce

// --icrc=NAME: the ICRC by that kernel, for example avx2.
int main(int argc, char** argv) {
  constexpr std::string_view kIcrc = "--icrc=";
  benchmark::Initialize(&argc, argv);
  if (argc == 2 && std::string_view(argv[1]).starts_with(kIcrc)) {
    const auto* kernel = uroce::wire::crc::find(argv[1] + kIcrc.size());
    if (kernel == nullptr) return std::fprintf(stderr, "error: this CPU lacks %s\n", argv[1]), 1;
    uroce::wire::crc::use(*kernel);
    --argc;
  }
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
