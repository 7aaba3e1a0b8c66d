#include "uroce/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <utility>

#include "net/address.h"

namespace uroce::cli {

namespace {

constexpr int kUsage = 2;

std::string footer() {
  return R"(Examples:
  uroce devices
  uroce show qp --json
  uroce show cm_id --pid 4711      # the connections of a process
  uroce show qp --address 10.0.0.2
  uroce show user                  # what each user has of the daemon, and may have
  uroce show peer                  # who sent frames for what it should not know; as root
  uroce stat uroce0                # counters, and their growth within a second
  uroce stat --interval 5          # every five seconds until ^C
  uroce stat --interval 0 --json >mark; ib_write_bw ...; uroce stat --since mark
  uroce top                        # q ends it
  uroce stat --openmetrics         # for Prometheus
  uroce --socket /tmp/demo.sock devices
  uroce capture -w wire.pcapng     # as root; ^C ends it
  uroce capture -w - --qp 0x11 | tshark -r -
  uroce trace --qp 0x11            # its packets as text, live
  uroce ping 10.0.0.2              # does RoCE reach this address?
  uroce explain 0x11               # what happened to a queue pair, also after its end
  uroce fault add drop rx nth=3    # loses the third packet; as root
  uroce record dump uroce0.0.4711.uroce | less
  uroce replay uroce0.0.4711.uroce # an engine does again what it did
  uroce doctor                     # what stands in the way on this machine
Exit codes: 0 success, 1 the daemon did not answer or refused, or something stands in the way, 2 unusable command line.)";
}

struct Kind {
  const char* name;
  Command command;
  const char* help;
};
/// The other lists of `show`, beside object_kinds().
constexpr std::array<Kind, 4> kOtherKinds{
    {{"client", Command::show_client, "Connections (contexts), with the objects and calls of each"},
     {"user", Command::show_user, "Users, with the resources that each has and may have"},
     {"peer", Command::show_peer, "Addresses whose frames guess numbers, for root and the daemon's user"},
     {"restart", Command::show_restart, "The last restart of the daemon, and the chances of the next one"}}};

/// The options of `stat` without which it ends after one sample.
struct Repetition {
  arguments::Option interval, count;
  bool given() const { return interval.given() || count.given(); }
};

/// The option may stand before the command or behind it.
void add_socket(arguments::Command& to, Options& o) {
  to.text("--socket", o.source.socket,
          "Path of the daemon's socket (default: UROCE_SOCKET, else /run/uroce/uroced.sock)");
}

arguments::Command add_command(arguments::Command& to, Options& o, const std::string& name, Command command,
                               const std::string& help) {
  arguments::Command made = to.command(name, help, [&o, command] { o.command = command; });
  add_socket(made, o);
  return made;
}

arguments::Option add_json(arguments::Command& command, Options& o) {
  return command.flag("--json", o.json, "Print JSON");
}

void add_device(arguments::Command& command, Options& o) {
  command.text("device", o.source.device, "Only this device (default: all)");
}

arguments::Option add_count(arguments::Command& command, Options& o, const std::string& help) {
  return command.number("--count", o.count, 1, 1'000'000'000, help);
}

void add_pid(arguments::Command& command, Options& o) {
  command.number("--pid", o.filter.pid, 1, std::numeric_limits<int32_t>::max(), "Only of this process");
}

void add_objects(arguments::Command& show, Options& o, const ObjectKind& kind) {
  arguments::Command command = show.command(kind.name, kind.help, [&o, &kind] {
    o.command = Command::show_objects;
    o.objects = &kind;
  });
  add_socket(command, o);
  add_json(command, o);
  add_device(command, o);
  add_pid(command, o);
  const auto has = [&kind](std::string_view field) { return kind.has(field); };
  if (std::ranges::any_of(kQpnFields, has)) {
    command.number("--qpn", o.filter.qpn, 0, 0xffffff, "Only of this queue pair, local or remote, e.g. 0x11");
  }
  if (std::ranges::any_of(kAddressFields, has)) {
    const auto take = [&o](const std::string& text) {
      const auto address = net::parse_address(text);
      if (!address) return address.error().text;
      o.filter.address = *address;
      return std::string();
    };
    command.value("--address", take, "Only with this address, own or the peer's, on any port");
  }
  command.footer(fields_text(kind));
}

void add_show(arguments::Command& program, Options& o) {
  arguments::Command show = program.command("show", "List the objects of the daemon's clients");
  add_socket(show, o);
  show.footer(
      "Root and the daemon's user see the objects of all users, with keys and PSNs; others see their own, without.");
  for (const ObjectKind& kind : object_kinds()) add_objects(show, o, kind);
  for (const Kind& kind : kOtherKinds) {
    arguments::Command command = add_command(show, o, kind.name, kind.command, kind.help);
    add_json(command, o);
    if (kind.command != Command::show_user && kind.command != Command::show_restart) add_device(command, o);
    if (kind.command == Command::show_client) add_pid(command, o);
    if (kind.command == Command::show_peer) command.footer(guesses_text());
  }
}

Repetition add_stat(arguments::Command& program, Options& o) {
  arguments::Command stat = add_command(program, o, "stat", Command::stat, "Counters and rates");
  const arguments::Option json = add_json(stat, o);
  add_device(stat, o);
  arguments::Option open = stat.flag("--openmetrics", o.openmetrics, "Print all metrics for Prometheus, once");
  arguments::Option describe =
      stat.flag("--describe", o.describe, "Print what each counter and metric means (Markdown); asks no daemon");
  stat.flag("--all", o.all, "Also show counters that are 0");
  arguments::Option since =
      stat.text("--since", o.since, "Only the growth since this file: an earlier `uroce stat --interval 0 --json`")
          .excludes(open)
          .excludes(describe);
  // Without the option: once, over a second.
  const arguments::Option interval = stat.real("--interval", o.interval_s, 0, 86400,
                                               "Seconds between samples, until --count or ^C; 0: only totals, once")
                                         .excludes(open)
                                         .excludes(describe)
                                         .excludes(since);
  open.excludes(json);
  describe.excludes(json);
  return {interval, add_count(stat, o, "End after this many samples")};
}

void add_top(arguments::Command& program, Options& o) {
  arguments::Command top =
      add_command(program, o, "top", Command::top,
                  "Refreshing view of engines, devices, the busiest queue pairs and connections; q ends it");
  add_device(top, o);
  top.real("--interval", o.interval_s, 0.1, 3600, "Seconds between refreshes (default: 1)");
  add_count(top, o, "End after this many refreshes");
}

/// The choice of frames, and the duration. Returns the option of the queue pair.
arguments::Option add_frames(arguments::Command& command, Options& o) {
  const arguments::Option qp =
      command.number("--qp", o.qp, 0, 0xffffff, "Only frames of this queue pair, local or remote, e.g. 0x11");
  command.text("--device", o.source.device, "The device; needed if the daemon has several");
  add_count(command, o, "End after this many frames");
  command.real("--seconds", o.seconds, 0.001, 1e9, "End after this many seconds");
  return qp;
}

void add_ping(arguments::Command& program, Options& o) {
  arguments::Command ping =
      add_command(program, o, "ping", Command::ping, "Measure whether and how fast RoCE reaches an address");
  arguments::Option address = ping.text("address", o.address, "The peer's address");
  address.excludes(ping.flag("--answer", o.answer, "Answer others' pings until ^C, where the daemon does not"));
  ping.number("--count", o.count, 1, 1000, "Round trips of each kind (default: 5)");
  ping.footer(
      R"(Every RoCE device answers for its connection manager. A uroced also answers messages, which show packet sizes and loss
recovery; where it is set not to (daemon.answer_pings, device.answer_pings), `uroce ping --answer` does so there.
Examples:
  uroce ping 10.0.0.2
  uroce ping --answer              # on a peer whose uroced answers no pings)");
}

void add_explain(arguments::Command& program, Options& o) {
  arguments::Command explain = add_command(program, o, "explain", Command::explain,
                                           "Say what happened to a program or a queue pair, also after its end");
  add_json(explain, o);
  explain.text("subject", o.subject,
               "A queue pair (0x11), a process (4711) or a program's name (default: all that went wrong)");
  explain.footer(
      R"(The daemon keeps the last events of recent programs: their queue pairs' states, what it refused them and why, how
their queue pairs ended, links that went down. An event of trouble has a ! before it. Root and the daemon's user see all
programs; others see their own.
Examples:
  uroce explain 0x11               # "status 12, why?"
  uroce explain ib_write_bw
  uroce explain --json)");
}

void add_fault(arguments::Command& program, Options& o) {
  arguments::Command fault = program.command("fault", "Lose, delay or change frames on purpose, while the daemon runs");
  add_socket(fault, o);
  fault.footer(
      R"(Rules hold for all devices at once. Only root and the daemon's user have them. They end with the daemon.
Examples:
  uroce fault add drop rx opcode=send_only nth=3
  uroce fault add --file faults
  uroce fault list
  uroce fault clear)");
  arguments::Command add = add_command(fault, o, "add", Command::fault_add, "Add a rule, or those of a file");
  arguments::Option rule = add.texts("rule", o.rule, "The words of a rule; see `uroce fault words`");
  rule.excludes(add.text("-f,--file", o.file, "A file with a rule in each line; - is the standard input"));
  add_json(add, o);
  arguments::Command list = add_command(fault, o, "list", Command::fault_list, "Show each rule, and how often it hit");
  add_json(list, o);
  arguments::Command clear = add_command(fault, o, "clear", Command::fault_clear, "End a rule, or all");
  clear.number("number", o.fault, 1, std::numeric_limits<uint32_t>::max(), "The rule's number (default: all)");
  add_command(fault, o, "words", Command::fault_words, "Print the language of rules (Markdown); asks no daemon");
}

void add_trace(arguments::Command& program, Options& o) {
  arguments::Command trace =
      add_command(program, o, "trace", Command::trace, "Print the packets of a queue pair as text, live");
  add_frames(trace, o).required();
  trace.footer(
      R"(A line has the seconds since the first packet, > for sent or < for received, and the packet's headers. The queue
pair is one of the device's, or connected to one; the trace ends when it goes. Only root and the daemon's user may trace.
Examples:
  uroce trace --qp 0x11
  uroce trace --device uroce0 --qp 0x11 --count 20)");
}

void add_capture(arguments::Command& program, Options& o) {
  arguments::Command capture =
      add_command(program, o, "capture", Command::capture, "Write a device's frames to a file for Wireshark");
  capture.text("-w,--write", o.file, "The file (pcapng); - is the standard output").required();
  add_frames(capture, o);
  capture.footer(
      R"(Captures both directions as the port had them: RoCE, ARP, ICMP, IGMP, and nothing else. Frames that come faster than they can
be written are counted; the device never waits. Only root and the daemon's user may capture.
Examples:
  uroce capture -w wire.pcapng --device uroce0 --seconds 10
  uroce capture -w - --qp 0x11 --count 100 | tshark -V -r -)");
}

void add_record(arguments::Command& program, Options& o) {
  arguments::Command record = program.command("record", "Look at a recording of `uroced --record`");
  arguments::Command dump =
      add_command(record, o, "dump", Command::record_dump, "Print all that a recording has, a record or packet a line");
  dump.text("file", o.file, "The recording").required();
  dump.number("--qp", o.qp, 1, 0xffffff, "Only what is about this queue pair");
  dump.text("--pcap", o.pcap, "Write the frames to this file (pcapng), payload as zeros; - is the standard output")
      .excludes(add_json(dump, o));
  dump.footer(
      R"(A line has the number of the record, that of a packet, the seconds since the recording began, and the content: < packets
that the engine got, > those that it sent. Packets have the numbers of `uroce replay --stop-at`. No daemon is asked.
Examples:
  uroce record dump /dev/shm/uroce0.0.4711.uroce
  uroce record dump FILE --qp 0x11 --json
  uroce record dump --pcap wire.pcapng FILE)");
}

std::string take_stop(const std::string& text, Options& o) {
  const bool psn = text.starts_with("psn=");
  const std::string number = psn ? text.substr(4) : text;
  char* end = nullptr;
  const uint64_t value = std::strtoull(number.c_str(), &end, 0);
  const bool whole = !number.empty() && number[0] >= '0' && number[0] <= '9' && *end == '\0';
  if (!whole || (psn ? value > 0xffffff : value == 0)) {
    return fmt::format("{} is neither a packet's number nor psn=0 to psn=0xffffff", text);
  }
  if (psn) {
    o.stop_psn = static_cast<uint32_t>(value);
  } else {
    o.stop_at = value;
  }
  return {};
}

void add_replay(arguments::Command& program, Options& o) {
  arguments::Command replay =
      add_command(program, o, "replay", Command::replay,
                  "Run an engine on a recording of `uroced --record`, and compare what it does");
  replay.text("file", o.file, "The recording").required();
  replay.number("--qp", o.qp, 1, 0xffffff, "Print the packets of this queue pair, and its state at the end");
  replay.value(
      "--stop-at", [&o](const std::string& text) { return take_stop(text, o); },
      "End with the packet of this number, which the list of --qp has, or with the first of --qp with psn=NUMBER");
  replay
      .text("--script", o.script,
            "Write a packet script of --qp, up to --stop-at (a number), for tests/script; - is the standard output")
      .excludes(add_json(replay, o));
  replay.footer(
      R"(The engine runs in the recording's time and must send the same frames and write the same completions, bit for bit. Payload
is not recorded. The exit code is 1 where it does something else. No daemon is asked.
Examples:
  uroce replay /dev/shm/uroce0.0.4711.uroce
  uroce replay FILE --qp 0x11 --stop-at 1200
  uroce replay FILE --qp 0x11 --stop-at psn=0x123
  uroce replay FILE --qp 0x11 --script failure.txt)");
}

}  // namespace

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv) {
  Options o;
  bool version = false;
  arguments::Program program(
      "uroce", fmt::format("uroce {}: shows and captures what the running daemon, uroced, does.", kVersion), "uroce",
      "; see uroce --help");
  program.footer(footer());
  program.flag("-V,--version", version, "Print the version and exit");
  add_socket(program, o);
  arguments::Command devices = add_command(program, o, "devices", Command::devices, "List the daemon's devices");
  add_json(devices, o);
  devices.flag("--here", o.here, "Fail unless the daemon is in this container (PID namespace)");
  add_show(program, o);
  const Repetition repetition = add_stat(program, o);
  add_top(program, o);
  add_capture(program, o);
  add_trace(program, o);
  add_ping(program, o);
  add_explain(program, o);
  add_fault(program, o);
  add_record(program, o);
  add_replay(program, o);
  arguments::Command doctor =
      add_command(program, o, "doctor", Command::doctor, "Say what stands in the way on this machine, and what to do");
  add_json(doctor, o);
  if (auto exit = program.parse(arguments::words_of(argc, argv))) return std::unexpected(std::move(*exit));
  if (version) return std::unexpected(EarlyExit{0, fmt::format("uroce {}", kVersion)});
  if (!program.has_command()) return std::unexpected(EarlyExit{kUsage, program.help()});
  if (o.command == Command::ping && o.address.empty() && !o.answer) {
    return std::unexpected(program.refusal("\"uroce ping\" needs the peer's address, or --answer"));
  }
  if (o.command == Command::fault_add && o.rule.empty() && o.file.empty()) {
    return std::unexpected(program.refusal("\"uroce fault add\" needs the words of a rule, or --file"));
  }
  if (o.stop_psn && !o.qp) return std::unexpected(program.refusal("\"--stop-at psn=\" needs the queue pair, --qp"));
  if (!o.script.empty() && (!o.qp || o.stop_psn)) {
    return std::unexpected(program.refusal("\"--script\" needs the queue pair, --qp, and ends with a packet's number"));
  }
  if (o.command == Command::stat && (!repetition.given() || o.interval_s == 0)) o.count = 1;
  return o;
}

}  // namespace uroce::cli
