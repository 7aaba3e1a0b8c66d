#include "tests/sim/leaf_spine/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "settings/names.h"

namespace uroce::sim {
namespace {

constexpr std::array<std::pair<const char*, uint64_t>, 5> kBuckets{{{"up to 10 KB", 10'000},
                                                                    {"up to 100 KB", 100'000},
                                                                    {"up to 1 MB", 1'000'000},
                                                                    {"larger", UINT64_MAX},
                                                                    {"all", UINT64_MAX}}};
constexpr std::size_t kSteps = 20;

double rounded(double value) { return std::round(value * 1000) / 1000; }

template <class Table, class Choice>
std::string word_of(const Table& table, Choice choice) {
  for (const auto& [word, value] : table) {
    if (value == choice) return std::string(word);
  }
  return {};
}

struct Finished {
  uint64_t bytes;
  double slowdown;
};

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return rounded(sorted[std::max<std::size_t>(rank, 1) - 1]);
}

Json percentiles(std::vector<double> values) {
  std::ranges::sort(values);
  return {{"flows", values.size()},          {"p50", percentile(values, 0.5)},    {"p95", percentile(values, 0.95)},
          {"p99", percentile(values, 0.99)}, {"p999", percentile(values, 0.999)}, {"max", percentile(values, 1)}};
}

std::vector<Finished> finished(const LeafSpine& fabric) {
  std::vector<Finished> all;
  for (const FabricFlow& flow : fabric.flows()) {
    if (!flow.done()) continue;
    const double took = static_cast<double>((flow.end - flow.start).count());
    all.push_back({flow.bytes, took / static_cast<double>(ideal_time(fabric.plan(), flow).count())});
  }
  return all;
}

Json buckets_json(const std::vector<Finished>& all) {
  Json buckets = Json::array();
  uint64_t above = 0;
  for (const auto& [name, most] : kBuckets) {
    std::vector<double> slowdowns;
    const bool whole = std::string_view(name) == "all";
    for (const Finished& one : all) {
      if (whole || (one.bytes > above && one.bytes <= most)) slowdowns.push_back(one.slowdown);
    }
    above = most;
    if (slowdowns.empty()) continue;
    Json bucket = percentiles(std::move(slowdowns));
    bucket["size"] = name;
    buckets.push_back(bucket);
  }
  return buckets;
}

// The same number of flows in each step of size.
Json steps_json(std::vector<Finished> all) {
  std::ranges::stable_sort(all, {}, &Finished::bytes);
  Json steps = Json::array();
  for (std::size_t i = 0; i < kSteps; ++i) {
    const std::size_t begin = all.size() * i / kSteps, end = all.size() * (i + 1) / kSteps;
    if (begin == end) continue;
    std::vector<double> slowdowns;
    for (std::size_t at = begin; at < end; ++at) slowdowns.push_back(all[at].slowdown);
    std::ranges::sort(slowdowns);
    steps.push_back(
        {{"bytes", all[end - 1].bytes}, {"p50", percentile(slowdowns, 0.5)}, {"p99", percentile(slowdowns, 0.99)}});
  }
  return steps;
}

Json plan_json(const FabricPlan& plan) {
  const SwitchOptions& s = plan.switches;
  return {{"hosts", plan.hosts},
          {"leaves", plan.leaves()},
          {"spines", plan.spines},
          {"host_gbps", plan.host_gbps},
          {"spine_gbps", plan.spine_gbps},
          {"link_delay_ns", plan.link_delay.count()},
          {"buffer_bytes", s.buffer.bytes},
          {"alpha", s.buffer.alpha},
          {"pfc", s.buffer.pfc},
          {"ecn", {s.ecn.kmin, s.ecn.kmax, s.ecn.pmax}},
          {"loss", plan.loss},
          {"failures", plan.failures},
          {"slow_links", plan.slow_links},
          {"slow_gbps", plan.slow_gbps},
          {"traffic", word_of(kTrafficNames, plan.traffic)},
          {"load", plan.load},
          {"ms", static_cast<double>(plan.duration.count()) / 1e6},
          {"control", word_of(settings::kCongestionNames, plan.congestion.algorithm)},
          {"recovery", word_of(kRecoveryNames, plan.recovery)},
          {"window", plan.window_packets},
          {"spray", plan.udp_source_ports},
          {"plb", plan.congestion.plb_rounds},
          {"tx_ring", plan.tx_slots},
          {"seed", plan.seed}};
}

Json packets_json(const FabricTotals& sum) {
  return {{"sent", sum.sent},           {"received", sum.received}, {"dropped", sum.dropped},
          {"lost", sum.lost},           {"cut", sum.cut},           {"marked", sum.marked},
          {"again", sum.retransmitted}, {"timeouts", sum.timeouts}, {"path_changes", sum.path_changes}};
}

Json samples_json(const std::vector<FabricTotals>& samples) {
  Json gbps = Json::array(), buffered = Json::array(), dropped = Json::array();
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const FabricTotals &before = samples[i - 1], &after = samples[i];
    const double bits = static_cast<double>(after.received_bytes - before.received_bytes) * 8;
    gbps.push_back(rounded(bits / static_cast<double>(LeafSpine::kSample.count())));
    buffered.push_back(after.buffered);
    dropped.push_back(after.dropped + after.lost + after.cut - before.dropped - before.lost - before.cut);
  }
  return {
      {"interval_us", LeafSpine::kSample.count() / 1000}, {"gbps", gbps}, {"buffered", buffered}, {"gone", dropped}};
}

// The first flows that did not end.
Json unfinished_json(const LeafSpine& fabric) {
  constexpr std::size_t kMost = 10;
  Json list = Json::array();
  for (const FabricFlow& flow : fabric.flows()) {
    if (flow.done() || list.size() == kMost) continue;
    list.push_back({{"from", flow.from},
                    {"to", flow.to},
                    {"bytes", flow.bytes},
                    {"start_us", flow.start.count() / 1'000'000},
                    {"status", static_cast<int>(flow.status)}});
  }
  return list;
}

}  // namespace

Json report(LeafSpine& fabric) {
  const FabricTotals sum = fabric.totals();
  const std::vector<Finished> all = finished(fabric);
  uint64_t bytes = 0;
  std::size_t failed = 0;
  for (const FabricFlow& flow : fabric.flows()) {
    if (flow.done()) bytes += flow.bytes;
    failed += flow.status != WcStatus::success;
  }
  return {{"plan", plan_json(fabric.plan())},
          {"flows",
           {{"begun", fabric.flows().size()},
            {"done", all.size()},
            {"failed", failed},
            {"bytes", bytes},
            {"queue_pairs", fabric.qps()}}},
          {"slowdown", buckets_json(all)},
          {"unfinished", unfinished_json(fabric)},
          {"steps", steps_json(all)},
          {"packets", packets_json(sum)},
          {"pfc", {{"pauses", sum.pauses}, {"paused_us", rounded(static_cast<double>(sum.paused.count()) / 1e6)}}},
          {"buffer", {{"most", sum.most_buffered}, {"capacity_leaf", fabric.leaf(0).buffer().capacity()}}},
          {"samples", samples_json(fabric.samples())},
          {"events", fabric.events().happened()},
          {"virtual_us", fabric.events().now().count() / 1'000'000},
          {"digest", fmt::format("{:016x}", fabric.digest())}};
}

std::string table_of(const Json& report) {
  const Json& flows = report["flows"];
  std::string text =
      fmt::format("flows     {} of {} done, {} failed, {} queue pairs, {} us\n", flows["done"].get<uint64_t>(),
                  flows["begun"].get<uint64_t>(), flows["failed"].get<uint64_t>(), flows["queue_pairs"].get<uint64_t>(),
                  report["virtual_us"].get<int64_t>());
  text +=
      fmt::format("{:<14}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "slowdown", "flows", "p50", "p95", "p99", "p99.9", "max");
  for (const Json& bucket : report["slowdown"]) {
    text += fmt::format("{:<14}{:>9}", bucket["size"].get<std::string>(), bucket["flows"].get<uint64_t>());
    for (const char* name : {"p50", "p95", "p99", "p999", "max"})
      text += fmt::format("{:>9.2f}", bucket[name].get<double>());
    text += '\n';
  }
  text += "packets  ";
  for (const auto& [name, value] : report["packets"].items())
    text += fmt::format(" {} {}", name, value.get<uint64_t>());
  text += fmt::format("\nbuffer    most {} bytes in a switch; {} pauses, {} us together\n",
                      report["buffer"]["most"].get<uint64_t>(), report["pfc"]["pauses"].get<uint64_t>(),
                      report["pfc"]["paused_us"].get<double>());
  text += fmt::format("run       {} events, digest {}\n", report["events"].get<uint64_t>(),
                      report["digest"].get<std::string>());
  return text;
}

}  // namespace uroce::sim
