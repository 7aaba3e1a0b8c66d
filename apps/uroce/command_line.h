// The operator's command line.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "arguments/program.h"
#include "uroce/fetch.h"
#include "uroce/filter.h"
#include "uroce/object_table.h"

namespace uroce::cli {

enum class Command {
  devices,
  show_objects,
  show_client,
  show_user,
  show_peer,
  show_restart,
  stat,
  top,
  capture,
  trace,
  ping,
  explain,
  fault_add,
  fault_list,
  fault_clear,
  fault_words,
  record_dump,
  replay,
  doctor
};

struct Options {
  Command command = Command::devices;
  Source source{};
  const ObjectKind* objects = nullptr;  ///< `show`: those of object_kinds()
  Filter filter{};                      ///< `show`
  bool json = false;
  bool here = false;                   ///< `devices`: only of a daemon in this container
  bool openmetrics = false;            ///< `stat`: the page of metrics, once
  bool describe = false;               ///< `stat`: what each counter and metric means
  bool all = false;                    ///< `stat`: also counters that are 0
  std::string since{};                 ///< `stat`: the file with an earlier sample; empty: none
  double interval_s = 1;               ///< `stat`, `top`; 0 for `stat`: only totals, at once
  uint64_t count = 0;                  ///< `stat`, `top`: number of samples; `capture`: of frames; 0 for ever
  std::string subject{};               ///< `explain`: a queue pair, process or program; empty for all
  std::vector<std::string> rule{};     ///< `fault add`: its words
  uint32_t fault = 0;                  ///< `fault clear`: the rule's number; 0: all
  std::string address{};               ///< `ping`: the peer's
  bool answer = false;                 ///< `ping`: answers others instead
  std::string file{};                  ///< `capture`: the file, "-" for standard output; `fault add`: that of the rules
  std::optional<uint32_t> qp{};        ///< `capture`, `trace`: only frames of this queue pair
  std::string pcap{};                  ///< `record dump`: the capture that it writes; empty: it prints text
  std::string script{};                ///< `replay`: the packet script that it writes; empty: none
  uint64_t stop_at = 0;                ///< `replay`: the number of the last packet; 0: none
  std::optional<uint32_t> stop_psn{};  ///< `replay`: the PSN of the last packet of the queue pair
  double seconds = 0;                  ///< `capture`, `trace`: duration; 0 for ever
};

using arguments::EarlyExit;

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv);

}  // namespace uroce::cli
