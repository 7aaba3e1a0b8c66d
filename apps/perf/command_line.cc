#include "perf/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <span>

#include "perf/options_rules.h"
#include "pmd_glue/stack_options.h"
#include "transport/core/setting_names.h"

namespace uroce::perf {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

std::string examples() {
  return R"(Words before `--` go to DPDK's EAL (lcores, devices, hugepages); the benchmark's options follow it.
With one lcore (-l 0) the test and the engine share it. With more (-l 0,1) engines run on the others.

Examples:
  Two devices joined inside this process, bytes checked:
    uroce_write_bw -l 0 --no-pci --in-memory -m 256 -- --back-to-back --verify
  Two processes over shared memory (server first):
    uroce_write_bw -l 0 --no-pci --file-prefix s --vdev net_memif0,role=server,socket=/run/m.sock -- -m 4096
    uroce_write_bw -l 1 --no-pci --file-prefix c --vdev net_memif0,role=client,socket=/run/m.sock -- -m 4096 127.0.0.1
  Latency over an interface that the kernel keeps:
    uroce_send_lat -- --interface eth0
    uroce_send_lat -- --interface eth0 server.example
  Two devices of a running `uroced --demo`:
    uroce_write_bw -- --daemon --back-to-back
  The frame rate of a port without transport:
    uroce_perf raw_bw -l 0 --no-pci --in-memory -m 256 -- --back-to-back -s 4154
  The latency of a port without transport:
    uroce_perf raw_lat -l 0 --no-pci --in-memory -m 256 -- --back-to-back -n 100000
Exit codes: 0 success, 1 the run failed, 2 unusable command line.)";
}

/// Options of perftest that need no member in Options.
struct Seen {
  std::string connection = "RC";
  int ib_port = 1;
  bool frequency = false;
  bool version = false;
  bool json = false;
  std::vector<std::string> positional;
};

void add_perftest_options(CLI::App& app, Options& o, Seen& seen) {
  constexpr uint64_t kMaxIters = uint64_t{1} << 40;
  app.add_option("-s,--size", o.size,
                 "Message size in bytes, with suffix K, M or G (must match); raw_bw and raw_lat: size of the frame")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{1}, kMaxMessage));
  app.add_option("-n,--iters", o.iters, "Number of messages per QP (must match)")
      ->check(CLI::Range(uint64_t{5}, kMaxIters));
  app.add_option("-D,--duration", o.duration_s,
                 "Run for this many seconds instead of -n (must match; the client's clock decides)")
      ->check(CLI::Range(0.01, 86400.0));
  app.add_option("-f,--margin", o.margin_s,
                 "Seconds at each end of a timed run that are not measured (default: a quarter of -D)")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("-q,--qp", o.qps, "Number of QPs; only for bandwidth tests (must match)")
      ->check(CLI::Range(1u, kMostQps));
  app.add_option("-t,--tx-depth", o.tx_depth, "Work requests outstanding per QP")->check(CLI::Range(1u, 15000u));
  app.add_option("-r,--rx-depth", o.rx_depth, "Receives posted per QP; only for SEND")->check(CLI::Range(1u, 16384u));
  app.add_option("-m,--mtu", o.mtu, "Path MTU: payload bytes of a packet (default: the smaller port's)")
      ->check(CLI::IsMember({256u, 512u, 1024u, 2048u, 4096u}));
  app.add_flag("-a,--all", o.all, "Run all sizes 2, 4, 8 to 2^23 (must match)");
  app.add_flag("-b,--bidirectional", o.bidirectional, "Both sides send; only for bandwidth tests (must match)");
  app.add_option("-p,--port", o.port, "TCP port of the parameter exchange")->check(CLI::Range(1, 65535));
  app.add_flag("--report_gbits", o.report_gbits, "Report Gb/s instead of MiB/s");
  app.add_flag("-F,--CPU-freq", seen.frequency,
               "Accepted and ignored, because times come from a clock, not from counted cycles");
  app.add_option("-I,--inline_size", o.inline_size, "Largest message that WRITE and SEND post inline, bytes")
      ->check(CLI::Range(0u, kMaxInline));
  app.add_option("-o,--outs", o.outs, "READs or atomics outstanding per QP (default: the device's limit)")
      ->check(CLI::Range(1u, kMaxRdAtomic));
  app.add_flag("-e,--events", o.events, "Sleep on completion events instead of polling");
  app.add_option("-u,--qp-timeout", o.qp_timeout,
                 "ACK timeout, 4.096 us * 2^n; the QP fails after 8 (default: 18; 14 with --retransmission go-back-n)")
      ->check(CLI::Range(0, 31));
  app.add_flag("-N,--noPeak", o.no_peak, "Do not compute the peak bandwidth");
  app.add_option("-l,--post_list", o.post_list, "Post lists of this many work requests, with one doorbell each")
      ->check(CLI::Range(1u, 1024u));
  app.add_option("-Q,--cq-mod", o.cq_mod, "One completion for this many messages")->check(CLI::Range(1u, 1024u));
  app.add_option("-d,--ib-dev", o.device, "Device: uroce0 is the first port, uroce1 the second (default: uroce0)");
  app.add_option("-i,--ib-port", seen.ib_port, "Port of the device; a device has one port")->check(CLI::Range(1, 1));
  app.add_option("-c,--connection", seen.connection, "Connection type; only RC is possible")
      ->check(CLI::IsMember({"RC"}));
  app.add_option("-A,--atomic_type", o.atomic_type,
                 "FETCH_AND_ADD, CMP_AND_SWAP or WRITE, which is ATOMIC WRITE (must match)")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, AtomicType>{{"FETCH_AND_ADD", AtomicType::fetch_and_add},
                                                                    {"CMP_AND_SWAP", AtomicType::cmp_and_swap},
                                                                    {"WRITE", AtomicType::write}}));
  app.add_option("-x,--gid-index", o.gid_index, "Index in the device's GID table (default: its first IPv4 address)")
      ->check(CLI::Range(0, 255));
  app.add_flag("-R,--rdma_cm", o.rdma_cm,
               "Connect QPs by rdma_cm; the sides still exchange parameters over TCP (must match)");
  app.add_flag("--out_json", seen.json, "Also write the report as JSON");
  app.add_option("--out_json_file", o.out_json_file,
                 "File of the JSON report (default: perftest_out.json; - is the standard output)");
  app.add_flag("-V,--version", seen.version, "Print the version and exit");
}

template <class Choice, std::size_t N>
CLI::CheckedTransformer choice_of(const std::array<std::pair<std::string_view, Choice>, N>& names) {
  std::map<std::string, Choice> choices;
  for (const auto& [word, value] : names) choices.emplace(word, value);
  return CLI::CheckedTransformer(choices);
}

void add_own_options(CLI::App& app, Options& o) {
  app.add_flag("--verify", o.verify,
               "Check every byte (must match); the first difference is printed and fails the run");
  app.add_option("--address", o.stack.addresses,
                 "Addresses of a port with prefix length, A/len[,A/len...], or \"kernel\": those of its interface; "
                 "once for each port, in port order (default: \"kernel\" with --interface, else 10.117.0.1/24 on the "
                 "server, 10.117.0.101/24 on the client)")
      ->allow_extra_args(false);
  app.add_option(
      "--interface", o.interface,
      "Network interface of the kernel, which keeps it, as this side's port; without EAL arguments on one CPU");
  app.add_option("--gateway", o.stack.gateway, "Next hop for peers off the subnet");
  app.add_option("--port-mtu", o.stack.mtu, "Ethernet MTU of the port, bytes; a path MTU of 4096 needs about 4200")
      ->check(CLI::Range(256, 16384));
  app.add_option("--vlan", o.stack.vlan, "802.1Q VLAN id of all frames")->check(CLI::Range(1, 4094));
  app.add_option("--idle", o.stack.idle, "Behaviour of an engine without work: busy, yield or sleep (default)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, IdlePolicy>{
          {"busy", IdlePolicy::busy}, {"yield", IdlePolicy::yield}, {"sleep", IdlePolicy::sleep}}));
  app.add_option("--tx-mode", o.stack.tx_mode, "How payload gets into frames: automatic (default), copy or external")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, StackOptions::TxMode>{{"automatic", StackOptions::TxMode::automatic},
                                                      {"copy", StackOptions::TxMode::copy},
                                                      {"external", StackOptions::TxMode::external}}));
  app.add_option(
         "--icrc", o.stack.icrc,
         "How the CPU computes ICRCs: automatic (default), which takes the fastest, or one that --version shows")
      ->check(CLI::IsMember(glue::icrc_choices()))
      ->option_text("NAME");  // The same text on every CPU: manual pages are made of it.
  app.add_option("--retransmission", o.retransmission,
                 "Loss recovery of this side's QPs: auto, go-back-n or selective (default: the device's)")
      ->transform(choice_of(transport::kRetransmissionNames));
  app.add_option("--congestion-control", o.congestion_control,
                 "Congestion control of this side's QPs: none, dcqcn or swift (default: the device's)")
      ->transform(choice_of(transport::kCongestionNames));
  app.add_option("--receive-loss", o.stack.receive_loss,
                 "Chance that a received RoCE frame is dropped on this side, to measure the effect of loss")
      ->check(CLI::Range(0.0, 0.5));
  app.add_flag("--whole-frames", o.stack.whole_frames,
               "Build and check frames as for a wire even where they stay in this process, as with --back-to-back");
  app.add_flag(
      "--back-to-back", o.back_to_back,
      "Server and client in this process, on two ports joined by rings (with --daemon: on its last two devices)");
  app.add_flag("--daemon", o.daemon, "Use a device of the running uroced instead of a port of this process");
  app.add_option("--socket", o.socket, "The daemon's socket (default: UROCE_SOCKET, else /run/uroce/uroced.sock)");
  app.add_option("--peer-timeout", o.peer_timeout_s, "Seconds without a message after which the peer counts as gone")
      ->check(CLI::Range(0.1, 86400.0));
  app.add_option("--connect-timeout", o.connect_timeout_s,
                 "Seconds to wait for the other side at the start; 0 for ever (default: client 10, server 600)")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_flag("--progress", o.progress, "Print a progress line on stderr even if that is not a terminal");
}

EarlyExit refuse(const Options& o, const std::string& text) { return {2, fmt::format("{}: {}", o.program, text)}; }

/// Moves a leading test name out of `words` into `o`.
bool take_test_name(std::vector<std::string>& words, Options& o) {
  if (words.empty()) return false;
  const auto test = test_by_name(words.front());
  if (!test) return false;
  o.test = *test;
  words.erase(words.begin());
  return true;
}

/// Splits argv at the first `--`. Without one, only help and version work.
void split(std::span<const char* const> argv, Options& o, std::vector<std::string>& own) {
  const auto end = std::ranges::find(argv, std::string_view("--"), [](const char* s) { return std::string_view(s); });
  o.eal.assign(argv.begin(), end);
  if (end != argv.end()) own.assign(end + 1, argv.end());
  if (end == argv.end()) {
    for (const std::string& word : o.eal) {
      if (word == "-h" || word == "--help" || word == "-V" || word == "--version") own = {word};
    }
  }
}

}  // namespace

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv) {
  Options o;
  Seen seen;
  std::vector<std::string> own;
  o.program = argc > 0 ? std::string(base_name(argv[0])) : "uroce_perf";
  if (argc > 0) split(std::span(argv + 1, static_cast<std::size_t>(argc - 1)), o, own);

  const auto by_program = test_by_name(o.program);
  if (by_program) o.test = *by_program;
  const bool named = by_program || take_test_name(o.eal, o);

  CLI::App app(fmt::format("{} {}: RDMA benchmarks on uroce. A server has no <host>, a client has the server's.",
                           o.program, kVersion),
               fmt::format("{}{} [EAL arguments] --", o.program, by_program ? "" : " <test>"));
  app.footer(examples());
  app.get_formatter()->column_width(32);
  add_perftest_options(app, o, seen);
  add_own_options(app, o);
  app.add_option("host", seen.positional, "Host of the server; the server itself has none");
  const OptionMarks marks{-1.0, std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint8_t>::max()};
  o.margin_s = o.connect_timeout_s = marks.unset_s;
  o.inline_size = marks.unset;
  o.qp_timeout = marks.unset_code;
  try {
    std::vector<std::string> reversed(own.rbegin(), own.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return std::unexpected(EarlyExit{0, app.help()});
  } catch (const CLI::ParseError& e) {
    return std::unexpected(refuse(o, fmt::format("{} (after `--`); see {} -- --help", e.what(), o.program)));
  }
  if (seen.version)
    return std::unexpected(EarlyExit{0, fmt::format("uroce_perf {}\n{}", kVersion, glue::icrc_summary())});
  if (!named && !take_test_name(seen.positional, o)) {
    return std::unexpected(refuse(o,
                                  "the name of the test is missing; write {write,read,send,atomic,flush,raw}_{bw,lat} "
                                  "as the first word, e.g. uroce_perf "
                                  "write_bw -l 0 --no-pci -- --back-to-back"));
  }
  if (seen.positional.size() > 1) {
    return std::unexpected(refuse(o, fmt::format("there is a second host \"{}\" after \"{}\"; leave one out",
                                                 seen.positional[1], seen.positional[0])));
  }
  if (!seen.positional.empty()) o.host = seen.positional[0];
  if (seen.json && o.out_json_file.empty()) o.out_json_file = "perftest_out.json";
  const bool explicit_size = app.count("--size") > 0;
  if (auto problem = apply_rules(o, marks, explicit_size)) return std::unexpected(refuse(o, *problem));
  return o;
}

}  // namespace uroce::perf
