#include "perf/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "arguments/program.h"
#include "arguments/settings.h"
#include "perf/options_rules.h"
#include "pmd_glue/stack_options.h"
#include "settings/names.h"

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

constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kConnections{{{"RC", "RC"}}};
constexpr std::array<std::pair<std::string_view, uint32_t>, 5> kMtus{
    {{"256", 256}, {"512", 512}, {"1024", 1024}, {"2048", 2048}, {"4096", 4096}}};

/// Returns the option of the size.
arguments::Option add_perftest_options(arguments::Command& program, Options& o, Seen& seen) {
  constexpr uint64_t kMaxIters = uint64_t{1} << 40;
  const arguments::Option size =
      program.size("-s,--size", o.size, 1, kMaxMessage,
                   "Message size in bytes, with suffix K, M or G (must match); raw_bw and raw_lat: size of the frame "
                   "(default: 65536; 2 for latency, 8 for atomics, 4096 for raw_bw, 60 for raw_lat)");
  program.number("-n,--iters", o.iters, 5, kMaxIters,
                 "Number of messages per QP (must match; default: 1000, 5000 for write_bw)");
  program.real("-D,--duration", o.duration_s, 0.01, 86400,
               "Run for this many seconds instead of -n (must match; the client's clock decides)");
  program.real("-f,--margin", o.margin_s, 0, 86400,
               "Seconds at each end of a timed run that are not measured (default: a quarter of -D)");
  program.number("-q,--qp", o.qps, 1, kMostQps, "Number of QPs; only for bandwidth tests (must match; default: 1)");
  program.number("-t,--tx-depth", o.tx_depth, 1, 15000,
                 "Work requests outstanding per QP (default: 128; 1 for latency)");
  program.number("-r,--rx-depth", o.rx_depth, 1, 16384, "Receives posted per QP; only for SEND (default: 512)");
  program.choice("-m,--mtu", o.mtu, kMtus, "Path MTU, payload bytes of a packet", "the smaller port's");
  program.flag("-a,--all", o.all, "Run all sizes 2, 4, 8 to 2^23 (must match)");
  program.flag("-b,--bidirectional", o.bidirectional, "Both sides send; only for bandwidth tests (must match)");
  program.number("-p,--port", o.port, 1, 65535, "TCP port of the parameter exchange (default: 18515)");
  program.flag("--report_gbits", o.report_gbits, "Report Gb/s instead of MiB/s");
  program.flag("-F,--CPU-freq", seen.frequency,
               "Accepted and ignored, because times come from a clock, not from counted cycles");
  program.number(
      "-I,--inline_size", o.inline_size, 0, kMaxInline,
      "Largest message that WRITE and SEND post inline, bytes (default: 0; 220 for write_lat, 236 for send_lat)");
  program.number("-o,--outs", o.outs, 1, kMaxRdAtomic,
                 "READs or atomics outstanding per QP (default: the device's limit)");
  program.flag("-e,--events", o.events, "Sleep on completion events instead of polling");
  program.number("-u,--qp-timeout", o.qp_timeout, 0, 31,
                 "ACK timeout, 4.096 us * 2^n; the QP fails after 8 (default: 18; 14 with --retransmission go-back-n)");
  program.flag("-N,--noPeak", o.no_peak,
               "Do not compute the peak bandwidth; always with -D and above 20000 iterations");
  program.number("-l,--post_list", o.post_list, 1, 1024,
                 "Post lists of this many work requests, with one doorbell each (default: 1)");
  program.number("-Q,--cq-mod", o.cq_mod, 1, 1024,
                 "One completion for this many messages (default: 100; 1 above 8 KiB)");
  program.text("-d,--ib-dev", o.device, "Device: uroce0 is the first port, uroce1 the second (default: uroce0)");
  program.number("-i,--ib-port", seen.ib_port, 1, 1, "Port of the device; a device has one port");
  program.choice("-c,--connection", seen.connection, kConnections, "Connection type");
  program.choice("-A,--atomic_type", o.atomic_type, kAtomicNames,
                 "Atomic operation, where WRITE is ATOMIC WRITE (must match)");
  program.number("-x,--gid-index", o.gid_index, 0, 255,
                 "Index in the device's GID table (default: its first IPv4 address)");
  program.flag("-R,--rdma_cm", o.rdma_cm,
               "Connect QPs by rdma_cm; the sides still exchange parameters over TCP (must match)");
  program.flag("--out_json", seen.json, "Also write the report as JSON");
  program.text("--out_json_file", o.out_json_file,
               "File of the JSON report (default: perftest_out.json; - is the standard output)");
  program.flag("-V,--version", seen.version, "Print the version and exit");
  return size;
}

void add_port_options(arguments::Command& program, Options& o) {
  program.texts("--address", o.stack.addresses,
                "Addresses of a port with prefix length, A/len[,A/len...], or \"kernel\": those of its interface; "
                "once for each port, in port order (default: \"kernel\" with --interface, else 10.117.0.1/24 on the "
                "server, 10.117.0.101/24 on the client)");
  program.text(
      "--interface", o.interface,
      "Network interface of the kernel, which keeps it, as this side's port; without EAL arguments on one CPU");
  arguments::add_settings(program, settings::kPerf, o.stack);
}

void add_own_options(arguments::Command& program, Options& o) {
  program.flag("--verify", o.verify,
               "Check every byte (must match); the first difference is printed and fails the run");
  add_port_options(program, o);
  program.choice("--retransmission", o.retransmission, settings::kRetransmissionNames,
                 "Loss recovery of this side's QPs", "the device's");
  program.choice("--congestion-control", o.congestion_control, settings::kCongestionNames,
                 "Congestion control of this side's QPs", "the device's");
  program.flag("--back-to-back", o.back_to_back,
               "Server and client in this process, on two ports joined by rings (with --daemon: on its last two "
               "devices)");
  program.flag("--daemon", o.daemon, "Use a device of the running uroced instead of a port of this process");
  program.text("--socket", o.socket, "The daemon's socket (default: UROCE_SOCKET, else /run/uroce/uroced.sock)");
  program.real("--peer-timeout", o.peer_timeout_s, 0.1, 86400,
               "Seconds without a message after which the peer counts as gone (default: 30)");
  program.real("--connect-timeout", o.connect_timeout_s, 0, 86400,
               "Seconds to wait for the other side at the start; 0 for ever (default: client 30, server 600)");
  program.flag("--progress", o.progress, "Print a progress line on stderr even if that is not a terminal");
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

std::string no_test(const Options& o, const Seen& seen) {
  const bool first = !o.eal.empty() && !o.eal.front().starts_with('-');
  if (first || !seen.positional.empty()) {
    return fmt::format("there is no test '{}'; write one of {}", first ? o.eal.front() : seen.positional.front(),
                       test_names());
  }
  return fmt::format(
      "the name of the test is missing; write it as the first word, e.g. uroce_perf write_bw -l 0 --no-pci -- "
      "--back-to-back; it is one of {}",
      test_names());
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

  arguments::Program program(
      o.program,
      fmt::format("{} {}: RDMA benchmarks on uroce. A server has no <host>, a client has the server's.", o.program,
                  kVersion),
      fmt::format("{}{} [EAL arguments] --", o.program, by_program ? "" : " <test>"),
      fmt::format(" (after `--`); see {} -- --help", o.program));
  program.footer(examples());
  const arguments::Option size = add_perftest_options(program, o, seen);
  add_own_options(program, o);
  program.texts("host", seen.positional, "Host of the server; the server itself has none");
  const OptionMarks marks{-1.0, std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint8_t>::max()};
  o.margin_s = o.connect_timeout_s = marks.unset_s;
  o.inline_size = marks.unset;
  o.qp_timeout = marks.unset_code;
  if (auto exit = program.parse(std::move(own))) return std::unexpected(std::move(*exit));
  if (seen.version)
    return std::unexpected(EarlyExit{0, fmt::format("uroce_perf {}\n{}", kVersion, glue::icrc_summary())});
  if (!named && !take_test_name(seen.positional, o)) return std::unexpected(refuse(o, no_test(o, seen)));
  if (seen.positional.size() > 1) {
    return std::unexpected(refuse(o, fmt::format("there is a second host \"{}\" after \"{}\"; leave one out",
                                                 seen.positional[1], seen.positional[0])));
  }
  if (!seen.positional.empty()) o.host = seen.positional[0];
  if (seen.json && o.out_json_file.empty()) o.out_json_file = "perftest_out.json";
  if (auto problem = apply_rules(o, marks, size.given())) return std::unexpected(refuse(o, *problem));
  return o;
}

}  // namespace uroce::perf
