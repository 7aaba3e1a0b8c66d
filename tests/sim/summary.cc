#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "settings/names.h"
#include "settings/table.h"
#include "tests/sim/simulation.h"
#include "wire/drop.h"

namespace uroce::sim {
namespace {

constexpr std::size_t kSeriesPoints = 500;

// So that two machines write the same digits.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }
double micros(Nanos time) { return static_cast<double>(time.count()) / 1e3; }
double gbps(double bytes, Nanos time) { return rounded(bytes * 8 / static_cast<double>(time.count())); }

template <class T>
T percentile(const std::vector<T>& sorted, double share) {
  if (sorted.empty()) return {};
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(at, 1, sorted.size()) - 1];
}

// Of the algorithm that is used.
Json parameters_json(const CongestionSettings& congestion) {
  Json json = Json::object();
  const EngineSettings all{.congestion = congestion};
  for (const settings::Row& row : settings::rows()) {
    if (row.setting.table != settings::name(congestion.algorithm)) continue;
    const settings::Value value = row.engine.get(all);
    const std::string name(row.setting.key);
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      json[name] = *whole;
    } else {
      json[name] = std::get<double>(value);
    }
  }
  return json;
}

Json scenario_json(const Scenario& s) {
  const ImpairmentRates& i = s.impairments;
  return {{"topology", settings::name_in(kTopologyNames, s.topology)},
          {"flows", s.flows},
          {"rate_gbps", s.gbps},
          {"rtt_us", micros(s.rtt)},
          {"paths", s.paths},
          {"path_skew_us", micros(s.path_skew)},
          {"queue_bytes", s.queue_bytes},
          {"tx_slots", s.tx_slots},
          {"ecn", {{"kmin", s.ecn.kmin}, {"kmax", s.ecn.kmax}, {"pmax", s.ecn.pmax}}},
          {"loss", i.loss},
          {"burst_loss", i.burst_loss},
          {"burst_length", i.burst_length},
          {"reorder", i.reorder},
          {"reorder_chance", i.reorder_chance},
          {"operation", s.read ? "read" : "write"},
          {"one_buffer", s.one_buffer},
          {"message_bytes", s.message_bytes},
          {"depth", s.depth},
          {"path_mtu", mtu_bytes(s.mtu)},
          {"retransmission", settings::name(s.retransmission)},
          {"congestion_control", settings::name(s.congestion.algorithm)},
          {"congestion_parameters", parameters_json(s.congestion)},
          {"window_packets", s.window_packets},
          {"udp_source_ports", s.udp_source_ports},
          {"timeout", s.timeout},
          {"duration_ms", micros(s.duration) / 1e3},
          {"warm_up_ms", micros(s.warm_up) / 1e3},
          {"seed", s.seed}};
}

std::vector<const TrafficFlow*> flows_of(const Simulation& simulation) {
  std::vector<const TrafficFlow*> flows;
  for (const auto& traffic : simulation.traffic()) {
    for (const auto& flow : traffic->flows()) flows.push_back(flow.get());
  }
  return flows;
}

Json goodput_json(const Simulation& simulation) {
  const Scenario& s = simulation.scenario();
  const Nanos measured = s.duration - s.warm_up;
  Json per_flow = Json::array();
  double total = 0;
  uint64_t failed = 0;
  for (const TrafficFlow* flow : flows_of(simulation)) {
    const double bytes = static_cast<double>(flow->completed) * s.message_bytes;
    total += bytes;
    per_flow.push_back(gbps(bytes, measured));
    if (flow->failure) ++failed;
  }
  return {{"total_gbps", gbps(total, measured)}, {"per_flow_gbps", per_flow}, {"failed_flows", failed}};
}

Json latency_json(const Simulation& simulation) {
  std::vector<Nanos> all;
  for (const auto& traffic : simulation.traffic()) {
    all.insert(all.end(), traffic->latencies().begin(), traffic->latencies().end());
  }
  std::ranges::sort(all);
  return {{"messages", all.size()},
          {"p50_us", micros(percentile(all, 0.5))},
          {"p99_us", micros(percentile(all, 0.99))},
          {"p999_us", micros(percentile(all, 0.999))},
          {"max_us", micros(percentile(all, 1))}};
}

// As the engines count what they send, by why they send it again.
Json causes_json(const Simulation& simulation) {
  transport::QpTransportStatus::Retransmitted sum;
  uint64_t selective = 0;
  for (const TrafficFlow* flow : flows_of(simulation)) {
    const transport::QpTransportStatus status = flow->qp->status();
    sum.fast += status.retransmitted.fast;
    sum.probe += status.retransmitted.probe;
    sum.timeout += status.retransmitted.timeout;
    sum.nak += status.retransmitted.nak;
    if (status.recovery == Retransmission::selective) ++selective;
  }
  return {{"overtaken", sum.fast},
          {"probe", sum.probe},
          {"timeout", sum.timeout},
          {"nak", sum.nak},
          {"flows_with_selective", selective}};
}

Json packets_json(const Simulation& simulation) {
  uint64_t sent = 0, retransmitted = 0, spurious = 0;
  for (const TrafficFlow* flow : flows_of(simulation)) {
    sent += flow->meter.sent();
    retransmitted += flow->meter.retransmitted();
    spurious += flow->meter.spurious();
  }
  return {{"sent", sent},
          {"retransmitted", retransmitted},
          {"spurious", spurious},
          {"spurious_share",
           sent == 0 ? 0 : std::round(static_cast<double>(spurious) / static_cast<double>(sent) * 1e7) / 1e7}};
}

// The sums of all engines.
Json engines_json(Simulation& simulation) {
  Json json = Json::object();
  Json drops = Json::object();
  std::array<uint64_t, wire::kDropCount> by_reason{};
  const auto add = [&json](const char* name, const Counter& counter) {
    json[name] = json.value(name, uint64_t{0}) + counter.get();
  };
  for (const auto& host : simulation.fabric().hosts()) {
    const transport::EngineCounters& c = host->endpoint().engine().counters();
    add("timeouts", c.timeouts);
    add("retransmitted_packets", c.retransmitted_packets);
    add("probes", c.probes);
    add("cnps_sent", c.cnps_sent);
    add("cnps_received", c.cnps_received);
    add("ecn_marked_received", c.ecn_marked_received);
    add("spurious_retransmissions", c.spurious_retransmissions);
    add("hellos_sent", c.hellos_sent);
    add("acks_sent", c.acks_sent);
    add("sacks_sent", c.sacks_sent);
    add("naks_sent", c.naks_sent);
    add("parked_packets", c.parked_packets);
    add("error_completions", c.error_completions);
    for (std::size_t i = 0; i < by_reason.size(); ++i) by_reason[i] += c.drops[i].get();
  }
  for (std::size_t i = 0; i < by_reason.size(); ++i) {
    if (by_reason[i] != 0) drops[std::string(wire::name(static_cast<wire::Drop>(i)))] = by_reason[i];
  }
  json["drops"] = drops;
  return json;
}

// The highest sample of each stretch of time.
Json series_json(const std::vector<uint32_t>& samples) {
  const std::size_t stride = (samples.size() + kSeriesPoints - 1) / kSeriesPoints;
  Json series = Json::array();
  for (std::size_t i = 0; i < samples.size(); i += stride) {
    const auto end = samples.begin() + static_cast<std::ptrdiff_t>(std::min(i + stride, samples.size()));
    series.push_back(*std::max_element(samples.begin() + static_cast<std::ptrdiff_t>(i), end));
  }
  return {{"interval_us", static_cast<double>(stride * QueueSampler::kInterval.count()) / 1e6}, {"bytes", series}};
}

Json queues_json(const Simulation& simulation) {
  Json queues = Json::array();
  for (const auto& queue : simulation.queues()) {
    std::vector<uint32_t> sorted = queue->samples();
    std::ranges::sort(sorted);
    const PortCounters& counters = queue->port().counters();
    queues.push_back({{"port", queue->port().options().name},
                      {"frames", counters.frames},
                      {"max_bytes", counters.max_queued},
                      {"p99_bytes", percentile(sorted, 0.99)},
                      {"p50_bytes", percentile(sorted, 0.5)},
                      {"overflows", counters.queue_drops},
                      {"marks", counters.marked},
                      {"series", series_json(queue->samples())}});
  }
  return queues;
}

// Jain's index: 1 where all get the same, 1/n where one gets all.
double jain(const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double squares = std::inner_product(shares.begin(), shares.end(), shares.begin(), 0.0);
  return squares == 0 ? 1 : rounded(sum * sum / (static_cast<double>(shares.size()) * squares));
}

// Payload that arrived, not yet what completed: messages are too coarse for a short window.
Json windows_json(const Simulation& simulation) {
  const Scenario& s = simulation.scenario();
  const auto flows = flows_of(simulation);
  const std::vector<Totals>& totals = simulation.windows().samples();
  Json windows = Json::array();
  for (std::size_t i = 0; i + 1 < totals.size(); ++i) {
    std::vector<double> bytes;
    for (const TrafficFlow* flow : flows) {
      const std::vector<uint64_t>& windows_of_flow = flow->meter.windows();
      bytes.push_back(i < windows_of_flow.size() ? static_cast<double>(windows_of_flow[i]) : 0);
    }
    const Totals &before = totals[i], &after = totals[i + 1];
    windows.push_back({{"goodput_gbps", gbps(std::accumulate(bytes.begin(), bytes.end(), 0.0), s.window)},
                       {"jain", jain(bytes)},
                       {"overflows", after.queue_drops - before.queue_drops},
                       {"lost", after.lost - before.lost},
                       {"marks", after.marked - before.marked},
                       {"timeouts", after.timeouts - before.timeouts},
                       {"retransmitted", after.retransmitted - before.retransmitted}});
  }
  return {{"length_us", micros(s.window)}, {"list", windows}};
}

std::string queues_text(const Json& queues) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(queues.size(), kMost); ++i) {
    const Json& queue = queues[i];
    text += fmt::format("queue        {}: most {} bytes, p99 {}, p50 {}\n", queue["port"].get<std::string>(),
                        queue["max_bytes"].get<uint64_t>(), queue["p99_bytes"].get<uint64_t>(),
                        queue["p50_bytes"].get<uint64_t>());
  }
  if (queues.size() > kMost) text += fmt::format("             {} more in --json\n", queues.size() - kMost);
  return text;
}

}  // namespace

Json summarize(Simulation& simulation) {
  const Totals totals = WindowSampler::totals(simulation.fabric());
  return {{"scenario", scenario_json(simulation.scenario())},
          {"goodput", goodput_json(simulation)},
          {"latency", latency_json(simulation)},
          {"packets", packets_json(simulation)},
          {"retransmissions", causes_json(simulation)},
          {"network", {{"overflows", totals.queue_drops}, {"lost", totals.lost}, {"marks", totals.marked}}},
          {"engines", engines_json(simulation)},
          {"queues", queues_json(simulation)},
          {"windows", windows_json(simulation)}};
}

std::string to_text(const Json& summary) {
  const auto number = [&summary](const char* path) { return summary.at(Json::json_pointer(path)).get<double>(); };
  std::string text = fmt::format("goodput      {:.3f} Gb/s", number("/goodput/total_gbps"));
  const auto per_flow = summary["goodput"]["per_flow_gbps"].get<std::vector<double>>();
  if (per_flow.size() > 1) {
    const auto [least, most] = std::ranges::minmax(per_flow);
    text += fmt::format(" ({} flows, {:.3f} to {:.3f})", per_flow.size(), least, most);
  }
  if (number("/goodput/failed_flows") > 0) text += fmt::format(", {} flows FAILED", number("/goodput/failed_flows"));
  text += fmt::format("\nlatency      p50 {} us, p99 {} us, p99.9 {} us, most {} us, {} messages\n",
                      number("/latency/p50_us"), number("/latency/p99_us"), number("/latency/p999_us"),
                      number("/latency/max_us"), number("/latency/messages"));
  text += fmt::format("packets      {} sent, {} of them again, {} without need\n", number("/packets/sent"),
                      number("/packets/retransmitted"), number("/packets/spurious"));
  text += fmt::format("network      {} overflows, {} lost, {} marks\n", number("/network/overflows"),
                      number("/network/lost"), number("/network/marks"));
  text += "engines     ";
  for (const auto& [name, value] : summary["engines"].items()) {
    if (value.is_number() && value != 0) text += fmt::format(" {} {}", name, value.get<uint64_t>());
  }
  text += '\n';
  text += fmt::format("sent again   {} overtaken, {} probes, {} by timeout, {} by NAK\n",
                      number("/retransmissions/overtaken"), number("/retransmissions/probe"),
                      number("/retransmissions/timeout"), number("/retransmissions/nak"));
  text += queues_text(summary["queues"]);
  double least = 1;
  for (const Json& window : summary["windows"]["list"]) least = std::min(least, window["jain"].get<double>());
  if (per_flow.size() > 1) text += fmt::format("fairness     Jain's index at least {} in any window\n", least);
  return text;
}

}  // namespace uroce::sim
