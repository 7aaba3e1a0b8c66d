// One engine with few and with many queue pairs: the rate of 8-byte WRITEs that visit them in turn, and the memory that
// an idle RC queue pair takes.
//
// The rates come from message_pair.h: requester, responder and the network share one thread, and its CPU time is what
// counts. Each round measures every number of queue pairs once, so that a ratio compares neighbours.
//
// Usage: many [--rounds N] [--batch MESSAGES] [--ready] [QUEUE-PAIRS...]
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

#include "tests/bench/message_pair.h"

namespace {

using namespace uroce;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Settings {
  uint32_t rounds = 5;
  uint32_t batch = 32;
  bool ready = false;
  std::vector<uint32_t> counts;
};

bench::Traffic traffic_of(const Settings& settings, uint32_t queue_pairs) {
  return {.queue_pairs = queue_pairs,
          .batch = settings.batch,
          .retransmission = settings.ready ? Retransmission::selective : Retransmission::go_back_n,
          .congestion = settings.ready ? CongestionAlgorithm::dcqcn : CongestionAlgorithm::none};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// --- Memory ---------------------------------------------------------------------------------------------------

std::size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

void connect(transport::Engine& engine, transport::Qp& qp, const wire::Route& route, uint8_t max_rd_atomic) {
  QpAttr attr;
  attr.path_mtu = Mtu::mtu4096;
  attr.dest_qpn = qp.qpn;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = max_rd_atomic;
  attr.timeout = 14;
  const QpAttrMask mask = QpAttrMask(QpAttrBit::state) | QpAttrBit::path_mtu | QpAttrBit::dest_qpn |
                          QpAttrBit::max_rd_atomic | QpAttrBit::max_dest_rd_atomic | QpAttrBit::timeout;
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    attr.state = state;
    engine.modify(qp, attr, mask, state == QpState::rtr ? &route : nullptr, false);
  }
}

/// Bytes of engine memory of an RC queue pair in RTS, without its rings in shared memory.
double idle_bytes(const Settings& settings, uint32_t entries, uint8_t max_rd_atomic) {
  constexpr uint32_t kQueuePairs = 2000;
  constexpr uint32_t kFirst = 0x10;
  test::EndpointOptions options;
  options.engine.max_qps = 4096;
  options.engine.long_windows = transport::EngineConfig{}.long_windows;
  const bench::Traffic traffic = traffic_of(settings, 1);
  options.engine.settings.retransmission = traffic.retransmission;
  options.engine.settings.congestion.algorithm = traffic.congestion;
  test::TestEndpoint endpoint(options);
  test::TestCq& cq = endpoint.make_cq();
  const QpCap cap{.max_send_wr = entries, .max_recv_wr = entries, .max_send_sge = 1, .max_recv_sge = 1};
  const test::TestQp& rings = endpoint.make_qp({.qpn = kFirst - 1, .cap = cap, .send_cq = &cq, .recv_cq = &cq});
  transport::QpSpec spec{.cap = cap, .sq = rings.send_ring(), .rq = rings.recv_ring()};
  spec.pd = 1;
  spec.doorbell_ring = test::TestEndpoint::kDoorbellRing;
  spec.send_cq = spec.recv_cq = &cq.writer();
  std::vector<transport::QpPtr> made(kQueuePairs);
  const std::size_t before = heap_bytes();
  for (uint32_t i = 0; i < kQueuePairs; ++i) {
    spec.qpn = kFirst + i;
    auto qp = transport::make_qp(spec);
    test::require(qp.has_value() && endpoint.engine().attach(**qp), "cannot make a queue pair");
    made[i] = std::move(*qp);
    connect(endpoint.engine(), *made[i], endpoint.route_to(endpoint), max_rd_atomic);
  }
  const auto bytes = static_cast<double>(heap_bytes() - before) / kQueuePairs;
  for (const transport::QpPtr& qp : made) endpoint.engine().detach(*qp);
  return bytes;
}

void print_memory(const Settings& settings) {
  fmt::print("{:<52}{:>10}\n", "engine memory of an idle RC queue pair", "bytes");
  for (const uint8_t reads : {1, 16}) {
    for (const uint32_t entries : {1u, 128u}) {
      fmt::print("  max_dest_rd_atomic {:>2}, {:>3} send work requests{:>22.0f}\n", reads, entries,
                 idle_bytes(settings, entries, reads));
    }
  }
}

// --- Rates ----------------------------------------------------------------------------------------------------

/// Messages a second of CPU time.
double rate(bench::MessagePair& pair, const Settings& settings) {
  constexpr double kSeconds = 0.2;
  const double begin = cpu_seconds();
  uint64_t messages = 0;
  double end = begin;
  while (end - begin < kSeconds) {
    const uint64_t run = uint64_t{settings.batch} * 256;
    pair.run(run);
    messages += run;
    end = cpu_seconds();
  }
  return static_cast<double>(messages) / (end - begin);
}

void print_rates(const Settings& settings) {
  std::vector<std::unique_ptr<bench::MessagePair>> pairs;
  fmt::print("{:>11}{:>16}\n", "queue pairs", "created, s CPU");
  for (const uint32_t count : settings.counts) {
    const double begin = cpu_seconds();
    pairs.push_back(std::make_unique<bench::MessagePair>(traffic_of(settings, count)));
    fmt::print("{:>11}{:>16.2f}\n", count, cpu_seconds() - begin);
    // Every queue pair has sent.
    pairs.back()->run((uint64_t{count} / settings.batch + 1) * settings.batch);
  }
  std::vector<std::vector<double>> rates(pairs.size());
  std::vector<std::vector<double>> ratios(pairs.size());
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      rates[i].push_back(rate(*pairs[i], settings));
      ratios[i].push_back(rates[i].back() / rates[0].back());
    }
  }
  fmt::print("{:>11}{:>16}{:>26}\n", "queue pairs", "messages/s", "of the first, least, most");
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [least, most] = std::ranges::minmax(ratios[i]);
    fmt::print("{:>11}{:>14.2f} M{:>10.2f}{:>8.2f}{:>8.2f}\n", settings.counts[i], median(rates[i]) * 1e-6,
               median(ratios[i]), least, most);
  }
}

bool number(std::string_view word, uint32_t& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value > 0;
}

bool parse(std::vector<std::string_view> words, Settings& settings) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    uint32_t* const option = words[i] == "--rounds"  ? &settings.rounds
                             : words[i] == "--batch" ? &settings.batch
                                                     : nullptr;
    if (option != nullptr) {
      if (++i == words.size() || !number(words[i], *option)) return false;
    } else if (words[i] == "--ready") {
      settings.ready = true;
    } else if (!number(words[i], settings.counts.emplace_back())) {
      return false;
    }
  }
  if (settings.counts.empty()) settings.counts = {16, 1, 256, 2000, 10'000, 20'000};
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse({argv + 1, argv + argc}, settings)) {
    fmt::print(stderr, "usage: {} [--rounds N] [--batch MESSAGES] [--ready] [QUEUE-PAIRS...]\n", argv[0]);
    return 2;
  }
  print_memory(settings);
  print_rates(settings);
  return 0;
}
