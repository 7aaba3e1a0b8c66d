// uroce_fabric: one run of the leaf-spine fabric, its report as text and JSON.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>

#include <sys/resource.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arguments/program.h"
#include "settings/names.h"
#include "tests/sim/leaf_spine/report.h"

namespace {

using namespace uroce;
using namespace uroce::sim;
using Clock = std::chrono::steady_clock;

constexpr const char* kExamples = R"(Examples:
  uroce_fabric --hosts 16 --hosts-per-leaf 4 --spines 2 --ms 1             a small fabric, in a second
  uroce_fabric --hosts 1000 --ms 10 --traffic websearch --control dcqcn    minutes
  uroce_fabric --traffic incast --load 0.2 --pfc --json -

A slowdown is the time from post to completion, divided by that of the same flow in an empty fabric. CPU time costs
nothing. Traffic ends after --ms, and the run once all flows have.)";

struct CommandLine {
  FabricPlan plan;
  std::string json;
  bool quiet = false;
  double ms = 10, fail_at_ms = 1, reroute_ms = 1, link_delay_us = 1, drain_ms = 10;
};

void add_network(arguments::Command& to, FabricPlan& plan, CommandLine& line) {
  to.heading("Network");
  to.number("--hosts", plan.hosts, 2u, 16384u, "Hosts");
  to.number("--hosts-per-leaf", plan.hosts_per_leaf, 1u, 1024u, "Hosts at each leaf switch");
  to.number("--spines", plan.spines, 1u, 64u, "Spine switches; each leaf has a link to each");
  to.real("--host-rate", plan.host_gbps, 0.1, 1600.0, "Rate of a host's link, Gb/s");
  to.real("--spine-rate", plan.spine_gbps, 0.1, 1600.0, "Rate of a link between leaf and spine, Gb/s");
  to.real("--delay", line.link_delay_us, 0.0, 1000.0, "Propagation on each link, us");
  to.size("--buffer", plan.switches.buffer.bytes, uint64_t{10'000}, uint64_t{1} << 32, "Packet buffer of a switch");
  to.real("--alpha", plan.switches.buffer.alpha, 0.01, 64.0,
          "A queue may hold so many times the free bytes of the buffer");
  to.flag("--pfc", plan.switches.buffer.pfc, "Switches pause senders and do not drop");
  to.size("--kmin", plan.switches.ecn.kmin, 0u, uint64_t{1} << 32, "ECN marks none up to this queue, at 100 Gb/s");
  to.size("--kmax", plan.switches.ecn.kmax, 0u, uint64_t{1} << 32, "ECN marks all beyond this queue; 0: no ECN");
  to.real("--pmax", plan.switches.ecn.pmax, 0.0, 1.0, "Chance of a mark at --kmax");
  to.real("--loss", plan.loss, 0.0, 1.0, "Chance that a packet is lost, on each link");
  to.number("--fail", plan.failures, 0u, 4096u, "Links between leaf and spine that go down");
  to.real("--fail-at", line.fail_at_ms, 0.0, 10'000.0, "When they do, ms");
  to.number("--slow", plan.slow_links, 0u, 4096u, "Links between leaf and spine that are slow");
  to.real("--slow-rate", plan.slow_gbps, 0.1, 1600.0, "Rate of those, Gb/s");
  to.real("--reroute", line.reroute_ms, 0.0, 10'000.0, "How long switches then use them, ms");
}

void add_traffic(arguments::Command& to, FabricPlan& plan, CommandLine& line) {
  to.heading("Traffic");
  to.choice("--traffic", plan.traffic, kTrafficNames, "Mix of flows");
  to.real("--load", plan.load, 0.001, 2.0, "Payload, of the hosts' rate; not of all-to-all");
  to.real("--ms", line.ms, 0.001, 10'000.0, "Duration of the traffic");
  to.real("--drain", line.drain_ms, 0.0, 10'000.0, "Most that the last flows may take after that, ms");
  to.number("--peers", plan.peers, 1u, 16383u, "Hosts to which a host sends");
  to.number("--degree", plan.degree, 2u, 4096u, "Senders of an incast, or hosts of an all-to-all");
  to.size("--size", plan.flow_bytes, uint64_t{1}, uint64_t{256} << 20, "Bytes of each flow of incast and all-to-all");
  to.number("--seed", plan.seed, uint64_t{0}, UINT64_MAX, "Seed of everything random");
}

void add_engines(arguments::Command& to, FabricPlan& plan) {
  to.heading("Engines");
  to.choice("--control", plan.congestion.algorithm, settings::kCongestionNames, "Congestion control");
  to.choice("--recovery", plan.recovery, kRecoveryNames,
            "Loss recovery; onlies: selective, and long WRITEs leave as Onlies");
  to.number("--plb", plan.congestion.plb_rounds, 0u, 1000u,
            "Rounds of congestion after which a queue pair leaves its path");
  to.number("--window", plan.window_packets, 1u, 1024u, "Most unacknowledged packets of a queue pair");
  to.number("--spray", plan.udp_source_ports, 1u, 64u, "UDP source ports of a queue pair");
  to.number("--timeout", plan.timeout, 1u, 31u, "ACK timeout, 4.096 us * 2^N");
  to.number("--tx-ring", plan.tx_slots, 1u, 65536u, "Frames in a host's transmit ring");
  to.number("--qps", plan.qps_per_peer, 1u, 64u, "Queue pairs to each peer");
}

Nanos nanos_of(double value, double unit) { return Nanos(std::llround(value * unit)); }

bool write_json(const std::string& path, const Json& json) {
  if (path == "-") {
    std::cout << json.dump() << '\n';
    return true;
  }
  std::ofstream file(path);
  file << json.dump() << '\n';
  file.close();
  if (file) return true;
  fmt::print(stderr, "uroce_fabric: cannot write {}; name a file in a folder that can be written\n", path);
  return false;
}

int run(const CommandLine& line) {
  const auto begun = Clock::now();
  const auto seconds = [begun] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
  LeafSpine fabric(line.plan);
  if (!line.quiet) fmt::print(stderr, "{} queue pairs connected after {:.1f} s\n", fabric.qps(), seconds());
  double told = seconds();
  fabric.run([&](Nanos now) {
    if (line.quiet || seconds() - told < 5) return;
    told = seconds();
    fmt::print(stderr, "{} us of virtual time after {:.0f} s, {:.1f} million events a second\n", now.count() / 1000,
               told, static_cast<double>(fabric.events().happened()) / told / 1e6);
  });
  const Json json = report(fabric);
  if (!line.quiet) fmt::print("{}", table_of(json));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  fmt::print(stderr, "took {:.1f} s, {:.1f} s of a core and {} MiB\n", seconds(),
             seconds_of(used.ru_utime) + seconds_of(used.ru_stime), used.ru_maxrss / 1024);
  return line.json.empty() || write_json(line.json, json) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  arguments::Program program("uroce_fabric",
                             "uroce_fabric: runs the engines that ship as hosts of a leaf-spine fabric.",
                             "uroce_fabric", "; see uroce_fabric --help");
  program.footer(kExamples);
  program.text("--json", line.json, "Write the report to this file; - is standard output").shown_as("FILE");
  program.flag("--quiet", line.quiet, "Print neither progress nor table");
  add_network(program, line.plan, line);
  add_traffic(program, line.plan, line);
  add_engines(program, line.plan);
  if (const auto exit = program.parse(arguments::words_of(argc, argv))) {
    fmt::print(exit->code == 0 ? stdout : stderr, "{}\n", exit->text);
    return exit->code;
  }
  line.plan.duration = nanos_of(line.ms, 1e6);
  line.plan.drain = nanos_of(line.drain_ms, 1e6);
  line.plan.fail_at = nanos_of(line.fail_at_ms, 1e6);
  line.plan.reroute = nanos_of(line.reroute_ms, 1e6);
  line.plan.link_delay = nanos_of(line.link_delay_us, 1e3);
  if (const std::string fault = fault_of(line.plan); !fault.empty()) {
    fmt::print(stderr, "uroce_fabric: {}\n", fault);
    return 2;
  }
  return run(line);
}
