// Cost of one packet in the wire layer: parse with and without ICRC, headers, ICRC, copy fused with ICRC.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/encode.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace {

Route bench_route(bool ipv6) {
  Route route;
  route.sgid = Gid::from_ipv4(0xc0000201);
  route.dgid = Gid::from_ipv4(0xc0000202);
  if (ipv6) {
    route.sgid = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    route.dgid = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  }
  return route;
}

std::vector<std::byte> bench_frame(Opcode opcode, std::size_t payload_bytes, bool ipv6) {
  Packet packet;
  packet.bth.opcode = opcode;
  packet.bth.dest_qpn = 0x11;
  packet.reth = {0x1000, 0x1234, static_cast<uint32_t>(payload_bytes)};
  std::vector<std::byte> frame(kMaxHeaderBytes + payload_bytes + 8);
  const std::vector<std::byte> payload(payload_bytes, std::byte{0x5a});
  frame.resize(test::encode(frame, packet, bench_route(ipv6), payload));
  return frame;
}

void parse_frame(benchmark::State& state, Opcode opcode, bool ipv6, Icrc icrc) {
  const auto frame = bench_frame(opcode, static_cast<std::size_t>(state.range(0)), ipv6);
  for (auto _ : state) {
    auto packet = parse(frame, icrc);
    benchmark::DoNotOptimize(packet);
    if (!packet) state.SkipWithError("dropped");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(frame.size()));
}
BENCHMARK_CAPTURE(parse_frame, write_only_v4, Opcode::rc_write_only, false, Icrc::check)->Arg(8)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(parse_frame, write_only_v6, Opcode::rc_write_only, true, Icrc::check)->Arg(8)->Arg(4096);
BENCHMARK_CAPTURE(parse_frame, ack_v4, Opcode::rc_ack, false, Icrc::check)->Arg(0);
BENCHMARK_CAPTURE(parse_frame, write_only_v4_no_icrc, Opcode::rc_write_only, false, Icrc::skip)->Arg(8);
BENCHMARK_CAPTURE(parse_frame, ack_v4_no_icrc, Opcode::rc_ack, false, Icrc::skip)->Arg(0);

void peek_frame(benchmark::State& state) {
  const auto frame = bench_frame(Opcode::rc_write_only, 8, false);
  for (auto _ : state) {
    auto kind = peek(frame);
    benchmark::DoNotOptimize(kind);
  }
}
BENCHMARK(peek_frame);

void build_headers(benchmark::State& state, bool ipv6) {
  const RouteTemplate t = make_template(bench_route(ipv6));
  Packet packet;
  packet.bth.opcode = Opcode::rc_write_only;
  packet.reth = {0x1000, 0x1234, 8};
  std::array<std::byte, 128> header;
  for (auto _ : state) {
    ++packet.bth.psn;
    const std::size_t n = write_l2_to_l4(header.data(), t, 0xc001, 28 + 8 + 4, 7);
    test::store_headers(header.data() + n, packet);
    benchmark::DoNotOptimize(header);
  }
}
BENCHMARK_CAPTURE(build_headers, v4, false);
BENCHMARK_CAPTURE(build_headers, v6, true);

/// Frames and their payload: a few that stay in the cache, or more than any cache holds.
class Frames {
 public:
  Frames(bool cold, std::size_t length) : stride_((length + 127) / 64 * 64) {
    static std::vector<std::byte> shared(96u << 20, std::byte{1});
    static std::vector<std::byte> copies(256u << 10);
    from_ = shared.data();
    to_ = copies.data();
    from_bytes_ = cold ? shared.size() : 4 * stride_;
    to_bytes_ = 4 * stride_;
  }
  /// The next frame's bytes. They begin 14 bytes behind an aligned address, as those behind an Ethernet header do.
  const std::byte* from() {
    from_at_ = from_at_ + 2 * stride_ <= from_bytes_ ? from_at_ + stride_ : 0;
    return from_ + from_at_ + 14;
  }
  std::byte* to() {
    to_at_ = to_at_ + 2 * stride_ <= to_bytes_ ? to_at_ + stride_ : 0;
    return to_ + to_at_ + 6;
  }

 private:
  std::size_t stride_, from_bytes_, to_bytes_, from_at_ = 0, to_at_ = 0;
  const std::byte* from_;
  std::byte* to_;
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One form of a kernel beside memcpy. They take turns, so that a change of the machine meets both, and the counters
/// are medians, so that a turn that another program interrupted does not count.
template <class Form>
void beside_memcpy(benchmark::State& state, bool cold, Form form) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTurn = 32;
  const auto length = static_cast<std::size_t>(state.range(0));
  Frames frames(cold, length);
  std::vector<double> own, other;
  for (auto _ : state) {
    const auto begin = Clock::now();
    for (int i = 0; i < kTurn; ++i) {
      benchmark::DoNotOptimize(form(frames, length));
      benchmark::ClobberMemory();
    }
    const auto middle = Clock::now();
    for (int i = 0; i < kTurn; ++i) {
      std::memcpy(frames.to(), frames.from(), length);
      benchmark::ClobberMemory();
    }
    const auto end = Clock::now();
    own.push_back(std::chrono::duration<double, std::nano>(middle - begin).count() / kTurn);
    other.push_back(std::chrono::duration<double, std::nano>(end - middle).count() / kTurn);
    state.SetIterationTime(std::chrono::duration<double>(middle - begin).count());
  }
  state.counters["ns"] = median(own);
  state.counters["memcpy_ns"] = median(other);
  state.counters["times_memcpy"] = median(own) / median(other);
}

/// As a sink that copies does it: begin, payload, pad.
void icrc_of_frame(benchmark::State& state) {
  const auto payload_bytes = static_cast<std::size_t>(state.range(0));
  const auto frame = bench_frame(Opcode::rc_write_only, payload_bytes, false);
  const auto headers = std::span(frame).subspan(14, 20 + 8 + 28);
  const auto payload = std::span(frame).subspan(14 + headers.size(), payload_bytes);
  std::vector<std::byte> out(payload_bytes);
  for (auto _ : state) {
    IcrcState icrc = IcrcState::begin(headers, 4);
    icrc.copy(out.data(), payload);
    auto value = icrc.value();
    benchmark::DoNotOptimize(value);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(icrc_of_frame)->Arg(0)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace

void register_kernels() {
  const auto add = [](const crc::Kernel& kernel, const char* form, bool cold, auto run) {
    const std::string name = std::string("icrc/") + kernel.name + '/' + form + (cold ? "/cold" : "/warm");
    auto* bench =
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { beside_memcpy(state, cold, run); });
    bench->UseManualTime()->MinTime(0.02);
    for (const int64_t length : {40, 64, 128, 256, 1024, 4096, 4152, 9000}) bench->Arg(length);
  };
  for (const crc::Kernel* kernel : crc::available()) {
    for (const bool cold : {false, true}) {
      // check: icrc_of() as on receive. copy: IcrcState::copy() alone.
      add(*kernel, "check", cold, [kernel](Frames& frames, std::size_t n) {
        crc::use(*kernel);
        return icrc_of({frames.from(), n}, 4);
      });
      add(*kernel, "copy", cold,
          [kernel](Frames& frames, std::size_t n) { return kernel->copy(0, frames.to(), frames.from(), n); });
    }
  }
}

}  // namespace uroce::wire

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  uroce::wire::register_kernels();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
