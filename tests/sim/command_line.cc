#include "tests/sim/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>

#include "transport/congestion/parameters.h"
#include "transport/core/setting_names.h"

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

// Shows the option's argument and default in the help, instead of CLI11's list of checks.
void show(CLI::Option* option, const std::string& takes) {
  const std::string by_default = option->get_default_str();
  option->option_text(by_default.empty() ? takes : takes + " [" + by_default + "]");
}

template <class T>
void add_number(CLI::Option_group& group, const std::string& name, T& value, T least, T most, const std::string& help) {
  show(group.add_option(name, value, help)->check(CLI::Range(least, most)), "N");
}

template <class T>
void add_size(CLI::Option_group& group, const std::string& name, T& value, T least, T most, const std::string& help) {
  show(group.add_option(name, value, help)->transform(CLI::AsSizeValue(false))->check(CLI::Range(least, most)),
       "BYTES");
}

// A time such as 12us.
void add_time(CLI::Option_group& group, const std::string& name, Nanos& value, const std::string& help) {
  static const std::map<std::string, int64_t> kUnits = {
      {"ns", 1}, {"us", 1000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  CLI::Option* option =
      group.add_option_function<int64_t>(
               name, [&value](int64_t nanos) { value = Nanos(nanos); }, help)
          ->transform(CLI::AsNumberWithUnit(kUnits, CLI::AsNumberWithUnit::UNIT_REQUIRED, "TIME"))
          ->check(CLI::Range(int64_t{0}, int64_t{100'000'000'000}));
  option->option_text("TIME [" + std::to_string(value.count() / 1000) + "us]");
}

template <class T>
void add_choice(CLI::Option_group& group, const std::string& name, T& value, const auto& names,
                const std::string& help) {
  std::map<std::string, T> choices;
  std::string all;
  for (const auto& [text, choice] : names) {
    choices.emplace(text, choice);
    all += (all.empty() ? "" : "|") + std::string(text);
  }
  group.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(choices))
      ->option_text(all + " [" + std::string(transport::name_in(names, value)) + "]");
}

// Numbers with commas between them; the last may be left out.
using Numbers = std::vector<double>;
void add_numbers(CLI::Option_group& group, const std::string& name, std::size_t fewest, std::size_t most,
                 const std::function<void(const Numbers&)>& set, const std::string& form, const std::string& help) {
  const auto take = [=](const Numbers& numbers) {
    if (numbers.size() < fewest || numbers.size() > most) throw CLI::ValidationError(name, "takes " + form);
    set(numbers);
  };
  group.add_option_function<Numbers>(name, take, help)
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e12))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text(form);
}

CLI::Option_group& add_group(CLI::App& app, const std::string& name) {
  CLI::Option_group& group = *app.add_option_group(name);
  group.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return group;
}

// A parameter of congestion control: dcqcn.additive_mbps=200.
void set_parameter(CongestionSettings& settings, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  for (const transport::CongestionParameter& parameter : transport::congestion_parameters()) {
    const std::string name = std::string(parameter.algorithm) + "." + std::string(parameter.name);
    double value = 0;
    if (assignment.substr(0, equals) != name || equals == std::string::npos) continue;
    if (!CLI::detail::lexical_cast(assignment.substr(equals + 1), value) || value < parameter.least ||
        value > parameter.most) {
      throw CLI::ValidationError("--set", fmt::format("{} must be a number from {} to {}, not '{}'", name,
                                                      parameter.least, parameter.most, assignment.substr(equals + 1)));
    }
    if (parameter.whole != nullptr) {
      parameter.whole(settings) = static_cast<uint32_t>(value);
    } else {
      parameter.real(settings) = value;
    }
    return;
  }
  throw CLI::ValidationError("--set",
                             fmt::format("unknown parameter '{}'; config/uroced.toml lists them under [dcqcn] and "
                                         "[swift], for example dcqcn.additive_mbps=200",
                                         assignment));
}

void add_network(CLI::App& app, Scenario& s) {
  auto& group = add_group(app, "Network");
  add_choice(group, "--topology", s.topology, kTopologyNames, "Arrangement of hosts and switches");
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
}

void add_traffic(CLI::App& app, Scenario& s) {
  auto& group = add_group(app, "Traffic");
  add_number(group, "--flows", s.flows, 1u, 1024u, "Queue pairs with traffic; incast: one for each sending host");
  group.add_flag("--read", s.read, "RDMA READs instead of WRITEs");
  group.add_flag("--one-buffer", s.one_buffer, "All READs of a flow use the same memory, as in perftest");
  add_size(group, "--message-size", s.message_bytes, 1u, 8u << 20, "Bytes of each operation");
  add_number(group, "--depth", s.depth, 1u, 4096u, "Operations that a flow keeps posted");
  add_time(group, "--duration", s.duration, "Duration of the traffic");
  add_time(group, "--warm-up", s.warm_up, "Beginning of the traffic that goodput and latency leave out");
  add_time(group, "--bin", s.window, "Interval for which fairness and losses are reported");
  add_number(group, "--seed", s.seed, uint64_t{0}, UINT64_MAX, "Seed of everything random");
}

void add_engines(CLI::App& app, Scenario& s) {
  auto& group = add_group(app, "Engines");
  add_choice(group, "--retransmission", s.retransmission, transport::kRetransmissionNames,
             "Loss recovery of the queue pairs");
  add_choice(group, "--congestion-control", s.congestion.algorithm, transport::kCongestionNames,
             "Congestion control of the queue pairs");
  group
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&s](const std::vector<std::string>& all) {
            for (const std::string& one : all) set_parameter(s.congestion, one);
          },
          "A parameter of congestion control, such as dcqcn.additive_mbps=200; may be repeated")
      ->option_text("NAME=VALUE");
  add_choice(group, "--mtu", s.mtu, kMtuNames, "Path MTU, bytes");
  add_number(group, "--window", s.window_packets, 1u, 16384u, "Most unacknowledged packets of a queue pair");
  add_number(group, "--spray", s.udp_source_ports, 1u, 64u,
             "UDP source ports over which a queue pair's packets are sprayed");
  add_number(group, "--timeout", s.timeout, 1u, 31u, "ACK timeout of the queue pairs, 4.096 us * 2^N");
  add_number(group, "--tx-ring", s.tx_slots, 1u, 65536u, "Frames in a host's transmit ring");
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, CommandLine& line) {
  CLI::App app;
  app.description("uroce_sim: runs the engines that ship in a simulated network, in virtual time.");
  app.footer(kExamples);
  add_network(app, line.scenario);
  add_traffic(app, line.scenario);
  add_engines(app, line.scenario);
  app.add_option("--json", line.json, "Write the summary to this file; - is standard output")->option_text("FILE");
  app.add_flag("--trace", line.trace, "Print the fate of every frame");
  app.add_flag("--quiet", line.quiet, "Print neither progress nor table");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return std::nullopt;
}

}  // namespace uroce::sim
