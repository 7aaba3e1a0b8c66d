#include "tests/sim/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

#include "settings/names.h"
#include "settings/table.h"

namespace uroce::sim {
namespace {

constexpr const char* kExamples = R"(Examples:
  uroce_sim --loss 1e-3                                        one flow of 64 KiB WRITEs, 100 Gb/s, 12 us
  uroce_sim --loss 1e-3 --retransmission go-back-n             the same with Go-Back-N
  uroce_sim --message-size 4096 --depth 1 --loss 1e-3          latency
  uroce_sim --reorder 32                                       each frame overtaken by up to 32 others
  uroce_sim --topology paths --paths 4 --spray 16              packets sprayed over unequal paths
  uroce_sim --topology incast --flows 32 --congestion-control dcqcn --ecn 400000,1600000,0.2 --queue 8m
  uroce_sim --burst-loss 1e-3,10 --json - | jq .goodput        losses in bursts of ten frames
  uroce_sim --duration 300us --loss 1e-2 --trace | less        the fate of every frame

CPU time costs nothing: engines take no time. --rtt is the propagation delay; the time to send frames is added. Loss and
reordering happen on the links from a switch to a host, in both directions of a flow.)";

using arguments::Command;
using arguments::Option;

// The help shows the default behind what the option takes.
template <class T>
void add_number(Command& to, const std::string& name, T& value, T least, T most, const std::string& help) {
  to.number(name, value, least, most, help).shown_as(fmt::format("N [{}]", value));
}

void add_number(Command& to, const std::string& name, double& value, double least, double most,
                const std::string& help) {
  to.real(name, value, least, most, help).shown_as(fmt::format("N [{}]", value));
}

template <class T>
void add_size(Command& to, const std::string& name, T& value, T least, T most, const std::string& help) {
  to.size(name, value, least, most, help).shown_as(fmt::format("BYTES [{}]", value));
}

/// Of a time such as 12us; nullopt without a unit, and beyond 100 s.
std::optional<Nanos> time_of(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, int64_t>, 4> kUnits{
      {{"ns", 1}, {"us", 1000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  int64_t number = 0;
  const bool read = std::from_chars(text.data(), text.data() + digits, number).ec == std::errc{};
  for (const auto& [unit, nanos] : kUnits) {
    if (read && text.substr(digits) == unit && number <= 100'000'000'000 / nanos) return Nanos(number * nanos);
  }
  return std::nullopt;
}

void add_time(Command& to, const std::string& name, Nanos& value, const std::string& help) {
  const auto take = [&value](const std::string& text) {
    const auto time = time_of(text);
    if (!time) return fmt::format("'{}' is no time of up to 100 s such as 12us; the units are ns, us, ms and s", text);
    value = *time;
    return std::string();
  };
  to.value(name, take, help).shown_as(fmt::format("TIME [{}us]", value.count() / 1000));
}

// Numbers with commas between them; the last may be left out.
using Numbers = std::vector<double>;
void add_numbers(Command& to, const std::string& name, std::size_t fewest, std::size_t most,
                 const std::function<void(const Numbers&)>& set, const std::string& form, const std::string& help) {
  const auto take = [=](const std::string& text) {
    Numbers numbers;
    for (const auto part : std::views::split(text, ',')) {
      const double number = arguments::real_of(std::string_view(part.begin(), part.end())).value_or(-1);
      if (!(number >= 0 && number <= 1e12)) return fmt::format("'{}' is not {}, numbers from 0 to 1e12", text, form);
      numbers.push_back(number);
    }
    if (numbers.size() < fewest || numbers.size() > most) return fmt::format("'{}' is not {}", text, form);
    set(numbers);
    return std::string();
  };
  to.value(name, take, help).shown_as(form);
}

// A parameter of congestion control: dcqcn.additive_mbps=200. Returns what is wrong with it.
std::string set_parameter(CongestionSettings& congestion, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  for (const settings::Row& row : settings::rows()) {
    const settings::Setting& setting = row.setting;
    const bool is_parameter = setting.table == "dcqcn" || setting.table == "swift";
    if (!is_parameter || equals == std::string::npos || assignment.substr(0, equals) != settings::name(setting))
      continue;
    const std::string text = assignment.substr(equals + 1);
    const auto real = arguments::real_of(text);
    const bool is_whole = setting.kind == settings::Kind::whole;
    const settings::Value value =
        is_whole ? settings::Value(static_cast<int64_t>(real.value_or(-1))) : real.value_or(-1);
    if (!real || !settings::allows(setting, value)) {
      return fmt::format("{} must be a number from {} to {}, not '{}'", settings::name(setting), setting.least,
                         setting.most, text);
    }
    EngineSettings all{.congestion = congestion};
    row.engine.set(all, value);
    congestion = all.congestion;
    return {};
  }
  return fmt::format(
      "unknown parameter '{}'; config/uroced.toml lists them under [dcqcn] and [swift], for example "
      "dcqcn.additive_mbps=200",
      assignment);
}

/// Rules for frames without `stall`, for an engine takes no time here. Returns what is wrong with the file.
std::string read_faults(const std::string& path, Scenario& scenario) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return fmt::format("cannot read fault rules from {}", path);
  faults::RuleSet rules(1);
  auto added = rules.add(text, path, Nanos(0));
  if (!added) return added.error().text;
  for (const auto& one : *added) {
    const bool has_place = faults::acts_on_frames(one->rule.subject, one->rule.action);
    if (has_place && one->rule.action != faults::Action::stall) continue;
    return fmt::format("{}: '{}' is none of a simulation, which has frames alone", path, one->rule.text);
  }
  scenario.faults = std::move(*added);
  return {};
}

void add_network(Command& group, Scenario& s) {
  group.heading("Network");
  group.choice("--topology", s.topology, kTopologyNames, "Arrangement of hosts and switches");
  add_number(group, "--rate", s.gbps, 0.001, 1600.0, "Rate of every link, Gb/s");
  add_time(group, "--rtt", s.rtt, "Propagation there and back, on the shortest path");
  add_number(group, "--paths", s.paths, 1u, 64u, "Paths between the switches of topology paths");
  add_time(group, "--path-skew", s.path_skew, "Extra one-way delay of each path over the one before");
  add_size(group, "--queue", s.queue_bytes, uint64_t{5000}, uint64_t{1} << 40, "Size of each output queue of a switch");
  const auto set_ecn = [&s](const Numbers& v) {
    s.ecn = {static_cast<uint64_t>(v[0]), static_cast<uint64_t>(v[1]), v[2]};
  };
  add_numbers(group, "--ecn", 3, 3, set_ecn, "KMIN,KMAX,PMAX",
              "Mark frames with a chance from 0 at KMIN queued bytes to PMAX at KMAX, and all frames beyond");
  add_number(group, "--loss", s.impairments.loss, 0.0, 1.0, "Chance that a frame is lost");
  const auto set_burst = [&s](const Numbers& v) {
    s.impairments.burst_loss = std::min(v[0], 0.99);
    if (v.size() > 1) s.impairments.burst_length = std::max(v[1], 1.0);
  };
  add_numbers(group, "--burst-loss", 1, 2, set_burst, "SHARE[,LENGTH]",
              "Share of the time in which all frames are lost, and mean length of such a burst in full frames "
              "(Gilbert-Elliott)");
  const auto set_reorder = [&s](const Numbers& v) {
    s.impairments.reorder = static_cast<uint32_t>(std::min(v[0], 4096.0));
    if (v.size() > 1) s.impairments.reorder_chance = std::min(v[1], 1.0);
  };
  add_numbers(group, "--reorder", 1, 2, set_reorder, "N[,SHARE]",
              "All frames, or this share of them, are overtaken by 0 to N others");
  group.value(
           "--faults", [&s](const std::string& path) { return read_faults(path, s); }, "File of fault rules")
      .shown_as("FILE");
}

void add_traffic(Command& group, Scenario& s) {
  group.heading("Traffic");
  add_number(group, "--flows", s.flows, 1u, 1024u, "Queue pairs with traffic; incast: one for each sending host");
  group.flag("--read", s.read, "RDMA READs instead of WRITEs");
  group.flag("--one-buffer", s.one_buffer, "All READs of a flow use the same memory, as in perftest");
  add_size(group, "--message-size", s.message_bytes, 1u, 8u << 20, "Bytes of each operation");
  add_number(group, "--depth", s.depth, 1u, 4096u, "Operations that a flow keeps posted");
  add_time(group, "--duration", s.duration, "Duration of the traffic");
  add_time(group, "--warm-up", s.warm_up, "Beginning of the traffic that goodput and latency leave out");
  add_time(group, "--bin", s.window, "Interval for which fairness and losses are reported");
  add_number(group, "--seed", s.seed, uint64_t{0}, UINT64_MAX, "Seed of everything random");
}

void add_engines(Command& group, Scenario& s) {
  group.heading("Engines");
  group.choice("--retransmission", s.retransmission, settings::kRetransmissionNames,
               "Loss recovery of the queue pairs");
  group.choice("--congestion-control", s.congestion.algorithm, settings::kCongestionNames,
               "Congestion control of the queue pairs");
  group
      .values(
          "--set", [&s](const std::string& one) { return set_parameter(s.congestion, one); },
          "A parameter of congestion control, such as dcqcn.additive_mbps=200; may be repeated")
      .shown_as("NAME=VALUE");
  group.choice("--mtu", s.mtu, kMtuNames, "Path MTU, bytes");
  add_number(group, "--window", s.window_packets, 1u, 16384u, "Most unacknowledged packets of a queue pair");
  add_number(group, "--spray", s.udp_source_ports, 1u, 64u,
             "UDP source ports over which a queue pair's packets are sprayed");
  add_number(group, "--timeout", s.timeout, 1u, 31u, "ACK timeout of the queue pairs, 4.096 us * 2^N");
  add_number(group, "--tx-ring", s.tx_slots, 1u, 65536u, "Frames in a host's transmit ring");
}

}  // namespace

std::optional<arguments::EarlyExit> parse_command_line(int argc, const char* const* argv, CommandLine& line) {
  arguments::Program program("uroce_sim",
                             "uroce_sim: runs the engines that ship in a simulated network, in virtual time.",
                             "uroce_sim", "; see uroce_sim --help");
  program.footer(kExamples);
  program.text("--json", line.json, "Write the summary to this file; - is standard output").shown_as("FILE");
  program.flag("--trace", line.trace, "Print the fate of every frame");
  program.flag("--quiet", line.quiet, "Print neither progress nor table");
  add_network(program, line.scenario);
  add_traffic(program, line.scenario);
  add_engines(program, line.scenario);
  return program.parse(arguments::words_of(argc, argv));
}

}  // namespace uroce::sim
