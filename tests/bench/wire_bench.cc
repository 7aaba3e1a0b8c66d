// Cost of one packet in the wire layer: parse with and without ICRC, headers, ICRC, copy fused with ICRC.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "wire/encode.h"
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
  frame.resize(encode(frame, packet, bench_route(ipv6), payload));
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
    store_headers(header.data() + n, packet);
    benchmark::DoNotOptimize(header);
  }
}
BENCHMARK_CAPTURE(build_headers, v4, false);
BENCHMARK_CAPTURE(build_headers, v6, true);

/// As a sink that copies does it: begin, payload, pad.
void icrc_of_frame(benchmark::State& state, bool copy) {
  const auto payload_bytes = static_cast<std::size_t>(state.range(0));
  const auto frame = bench_frame(Opcode::rc_write_only, payload_bytes, false);
  const auto headers = std::span(frame).subspan(14, 20 + 8 + 28);
  const auto payload = std::span(frame).subspan(14 + headers.size(), payload_bytes);
  std::vector<std::byte> out(payload_bytes);
  for (auto _ : state) {
    IcrcState icrc = IcrcState::begin(headers, 4);
    if (copy) {
      icrc.copy(out.data(), payload);
    } else {
      icrc.update(payload);
    }
    auto value = icrc.value();
    benchmark::DoNotOptimize(value);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(icrc_of_frame, warm, false)->Arg(0)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(icrc_of_frame, warm_copy, true)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

/// Copies packet after packet out of memory that no cache holds.
void icrc_cold_copy(benchmark::State& state) {
  constexpr std::size_t kPacket = 4096;
  const std::vector<std::byte> source(64u << 20, std::byte{1});
  std::vector<std::byte> out(kPacket);
  const auto headers = bench_frame(Opcode::rc_write_only, 8, false);
  std::size_t at = 0;
  for (auto _ : state) {
    IcrcState icrc = IcrcState::begin(std::span(headers).subspan(14, 56), 4);
    icrc.copy(out.data(), std::span(source).subspan(at, kPacket));
    at = (at + kPacket) % source.size();
    auto value = icrc.value();
    benchmark::DoNotOptimize(value);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kPacket));
}
BENCHMARK(icrc_cold_copy);

}  // namespace
}  // namespace uroce::wire

BENCHMARK_MAIN();
