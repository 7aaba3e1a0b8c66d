#include "uroce/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <CLI/CLI.hpp>
#include <array>

namespace uroce::cli {

namespace {

constexpr int kUsage = 2;

std::string footer() {
  return R"(Examples:
  uroce devices
  uroce show qp --json
  uroce show user                  # what each user has of the daemon, and may have
  uroce show peer                  # who sent frames for what it should not know; as root
  uroce stat uroce0                # counters, and their growth within a second
  uroce stat --interval 5          # every five seconds until ^C
  uroce top                        # q ends it
  uroce stat --openmetrics         # for Prometheus
  uroce --socket /tmp/demo.sock devices
  uroce capture -w wire.pcapng     # as root; ^C ends it
  uroce capture -w - --qp 0x11 | tshark -r -
  uroce trace --qp 0x11            # its packets as text, live
  uroce ping 10.0.0.2              # does RoCE reach this address?
  uroce doctor                     # what stands in the way on this machine
Exit codes: 0 success, 1 the daemon did not answer or refused, or something stands in the way, 2 unusable command line.)";
}

struct Kind {
  const char* name;
  Command command;
  const char* help;
};
constexpr std::array<Kind, 6> kKinds{
    {{"qp", Command::show_qp, "Queue pairs"},
     {"mr", Command::show_mr, "Memory regions"},
     {"cq", Command::show_cq, "Completion queues"},
     {"client", Command::show_client, "Connections, with the objects and calls of each"},
     {"user", Command::show_user, "Users, with the resources that each has and may have"},
     {"peer", Command::show_peer, "Peers that may be guessing numbers, for root and the daemon's user"}}};

/// Before the command and behind it.
void add_socket(CLI::App& app, Options& o) {
  app.add_option("--socket", o.source.socket,
                 "Path of the daemon's socket (default: UROCE_SOCKET, else /run/uroce/uroced.sock)");
}

CLI::App* add_command(CLI::App& app, Options& o, const std::string& name, Command command, const std::string& help) {
  CLI::App* sub = app.add_subcommand(name, help);
  add_socket(*sub, o);
  sub->final_callback([&o, command] { o.command = command; });
  return sub;
}

void add_json(CLI::App* command, Options& o) { command->add_flag("--json", o.json, "Print JSON"); }

void add_device(CLI::App* command, Options& o) {
  command->add_option("device", o.source.device, "Only this device (default: all)");
}

void add_object_commands(CLI::App& app, Options& o) {
  CLI::App* show = app.add_subcommand("show", "List the objects of the daemon's clients");
  show->require_subcommand(1);
  add_socket(*show, o);
  show->footer(
      "Root and the daemon's user see the objects of all users, with keys and PSNs; others see their own, without.");
  for (const Kind& kind : kKinds) {
    CLI::App* command = add_command(*show, o, kind.name, kind.command, kind.help);
    add_json(command, o);
    if (kind.command != Command::show_user) add_device(command, o);
  }
  CLI::App* stat = add_command(app, o, "stat", Command::stat, "Counters and rates");
  add_json(stat, o);
  add_device(stat, o);
  CLI::Option* open = stat->add_flag("--openmetrics", o.openmetrics, "Print all metrics for Prometheus, once");
  CLI::Option* describe =
      stat->add_flag("--describe", o.describe, "Print what each counter and metric means (Markdown); asks no daemon");
  stat->add_flag("--all", o.all, "Also show counters that are 0");
  // Without the option: once, over a second.
  stat->add_option("--interval", o.interval_s, "Seconds between samples, until --count or ^C; 0: only totals, once")
      ->check(CLI::Range(0.0, 86400.0))
      ->excludes(open)
      ->excludes(describe);
  stat->add_option("--count", o.count, "End after this many samples")->check(CLI::Range(1, 1'000'000'000));
  for (CLI::Option* page : {open, describe}) page->excludes("--json");
  CLI::App* top =
      add_command(app, o, "top", Command::top,
                  "Refreshing view of engines, devices, the busiest queue pairs and connections; q ends it");
  add_device(top, o);
  top->add_option("--interval", o.interval_s, "Seconds between refreshes (default: 1)")->check(CLI::Range(0.1, 3600.0));
  top->add_option("--count", o.count, "End after this many refreshes")->check(CLI::Range(1, 1'000'000'000));
}

/// The choice of frames, and the duration. Returns the option of the queue pair.
CLI::Option* add_frames(CLI::App* command, Options& o) {
  CLI::Option* qp = command->add_option("--qp", o.qp, "Only frames of this queue pair, local or remote, e.g. 0x11")
                        ->check(CLI::Range(0u, 0xffffffu));
  command->add_option("--device", o.source.device, "The device; needed if the daemon has several");
  command->add_option("--count", o.count, "End after this many frames")->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--seconds", o.seconds, "End after this many seconds")->check(CLI::Range(0.001, 1e9));
  return qp;
}

void add_ping(CLI::App& app, Options& o) {
  CLI::App* ping = add_command(app, o, "ping", Command::ping, "Measure whether and how fast RoCE reaches an address");
  CLI::Option* address = ping->add_option("address", o.address, "The peer's address");
  CLI::Option* answer = ping->add_flag("--answer", o.answer, "Answer others' pings until ^C");
  ping->add_option("--count", o.count, "Round trips of each kind (default: 5)")->check(CLI::Range(1, 1000));
  address->excludes(answer);
  ping->parse_complete_callback([&o] {
    if (o.address.empty() && !o.answer) throw CLI::RequiredError("address");
  });
  ping->footer(
      R"(Every RoCE device answers for its connection manager. Messages, packet sizes and loss recovery need `uroce ping --answer` on the peer.
Examples:
  uroce ping 10.0.0.2
  uroce ping --answer              # on the peer)");
}

void add_trace(CLI::App& app, Options& o) {
  CLI::App* trace = add_command(app, o, "trace", Command::trace, "Print the packets of a queue pair as text, live");
  add_frames(trace, o)->required();
  trace->footer(
      R"(A line has the seconds since the first packet, > for sent or < for received, and the packet's headers. The queue
pair is one of the device's, or connected to one; the trace ends when it goes. Only root and the daemon's user may trace.
Examples:
  uroce trace --qp 0x11
  uroce trace --device uroce0 --qp 0x11 --count 20)");
}

void add_capture(CLI::App& app, Options& o) {
  CLI::App* capture =
      add_command(app, o, "capture", Command::capture, "Write a device's frames to a file for Wireshark");
  capture->add_option("-w,--write", o.file, "The file (pcapng); - is the standard output")->required();
  add_frames(capture, o);
  capture->footer(
      R"(Captures both directions as the port had them: RoCE, ARP, ICMP, IGMP, and nothing else. Frames that come faster than they can
be written are counted; the device never waits. Only root and the daemon's user may capture.
Examples:
  uroce capture -w wire.pcapng --device uroce0 --seconds 10
  uroce capture -w - --qp 0x11 --count 100 | tshark -V -r -)");
}

}  // namespace

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv) {
  Options o;
  bool version = false;
  CLI::App app(fmt::format("uroce {}: shows and captures what the running daemon, uroced, does.", kVersion), "uroce");
  app.footer(footer());
  app.add_flag("-V,--version", version, "Print the version and exit");
  add_socket(app, o);
  add_json(add_command(app, o, "devices", Command::devices, "List the daemon's devices"), o);
  add_object_commands(app, o);
  add_capture(app, o);
  add_trace(app, o);
  add_ping(app, o);
  add_json(add_command(app, o, "doctor", Command::doctor, "Say what stands in the way on this machine, and what to do"),
           o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return std::unexpected(EarlyExit{0, app.help()});
  } catch (const CLI::ParseError& e) {
    return std::unexpected(EarlyExit{kUsage, fmt::format("uroce: {}; see uroce --help", e.what())});
  }
  if (version) return std::unexpected(EarlyExit{0, fmt::format("uroce {}", kVersion)});
  if (app.get_subcommands().empty()) return std::unexpected(EarlyExit{kUsage, app.help()});
  const CLI::App* chosen = app.get_subcommands().front();
  const bool repeated = o.command == Command::stat && (chosen->count("--interval") > 0 || chosen->count("--count") > 0);
  if (o.command == Command::stat && (!repeated || o.interval_s == 0)) o.count = 1;
  return o;
}

}  // namespace uroce::cli
