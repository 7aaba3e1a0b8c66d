// Cost of one message on one core inside the transport: post, engine, frame bytes with ICRC, the peer's engine.
// Both ends run on the measuring thread, so a rate here is for requester and responder together.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/support/test_endpoint.h"
#include "wire/icrc.h"

namespace uroce {
namespace {

constexpr AccessFlags kAll = AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read;

// A sink that writes whole frames into memory made once, as a PMD that copies does.
class MemorySink : public transport::FrameSink {
 public:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::size_t kSlotBytes = 4352;

  std::size_t room() override { return kSlots - used_; }
  void send(std::span<const transport::TxFrame> frames) override {
    for (const auto& frame : frames) {
      std::byte* at = memory_.get() + used_ * kSlotBytes;
      std::memcpy(at, frame.header.data(), frame.header.size());
      auto icrc = wire::IcrcState::begin(
          {frame.header.data() + frame.l3_offset, frame.header_length - std::size_t{frame.l3_offset}},
          frame.ip_version);
      std::byte* to = at + frame.header_length;
      for (uint32_t i = 0; i < frame.payload_spans; ++i) {
        icrc.copy(to, {frame.payload[i].data, frame.payload[i].length});
        to += frame.payload[i].length;
      }
      frames_[used_++] = {{at, icrc.finish(to, frame.pad)}};
    }
  }
  std::span<const transport::RxFrame> take() {
    const std::size_t n = used_;
    used_ = 0;
    return {frames_.data(), n};
  }

 private:
  std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(kSlots * kSlotBytes);
  std::array<transport::RxFrame, kSlots> frames_{};
  std::size_t used_ = 0;
};

void write_messages(benchmark::State& state, Retransmission retransmission, CongestionAlgorithm congestion) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  test::EndpointOptions options;
  options.engine.retransmission = retransmission;
  options.engine.congestion.algorithm = congestion;
  test::TestEndpoint left(options);
  options.gid = Gid::from_ipv4(0x0a000002);
  test::TestEndpoint right(options);
  auto& cq = left.make_cq(4096);
  auto& from = left.make_qp(
      {.qpn = 0x11, .cap = {.max_send_wr = 128, .max_send_sge = 1, .max_inline_data = 64}, .send_cq = &cq});
  auto& to = right.make_qp({.qpn = 0x22});
  auto& source = left.make_region(1 << 20, kAll);
  auto& target = right.make_region(1 << 20, kAll);
  from.connect({.dest_qpn = 0x22, .mtu = Mtu::mtu4096, .timeout = 0}, left.route_to(right));
  to.connect({.dest_qpn = 0x11, .mtu = Mtu::mtu4096}, right.route_to(left));
  MemorySink rightward;
  MemorySink leftward;
  const Sge sge = source.sge(0, bytes);
  SendRequest request{
      .wr_id = 1, .opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = target.va(), .rkey = target.key()};
  Nanos now{0};
  uint64_t posted = 0;
  for (auto _ : state) {
    for (int i = 0; i < 32; ++i) {
      request.flags = ++posted % 32 == 0 ? SendFlags(SendFlag::signaled) : SendFlags{};
      if (!from.post_send(request)) {
        --posted;
        break;
      }
    }
    now += Nanos(1000);
    left.engine().poll(rightward, now);
    right.engine().on_frames(rightward.take(), now);
    right.engine().poll(leftward, now);
    left.engine().on_frames(leftward.take(), now);
    while (cq.poll()) {
    }
  }
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
