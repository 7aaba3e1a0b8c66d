#include "nvmf/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <CLI/CLI.hpp>

#include "nvmf/config.h"

namespace uroce::nvmf {

namespace {

constexpr int kUsage = 2;

std::string footer() {
  return R"(A namespace is a block device, a regular file, or memory:SIZE with suffix K, M, G or T, for tests. Its number is its place
among the --namespace options, from 1.

Examples:
  A disk for one host, through the running uroced:
    uroce_nvmf --nqn nqn.2024-01.org.example:disks --namespace /dev/sdb --allow-host nqn.2014-08.org.nvmexpress:uuid:...
  Memory for every host, to try it:
    uroce_nvmf --nqn nqn.2024-01.org.example:try --namespace memory:1G
  Several subsystems, from a file:
    uroce_nvmf --config /etc/uroce/nvmf.toml
  On the host (Linux, as root):
    nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2024-01.org.example:try
Signals: SIGTERM and SIGINT end the connections and then the program.
Exit codes: 0 success, 1 failure, 2 unusable command line or configuration.)";
}

EarlyExit refuse(const std::string& text) { return {kUsage, "uroce_nvmf: " + text}; }

}  // namespace

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv) {
  Options options;
  SubsystemSettings simple;
  std::vector<std::string> namespaces;
  std::string config;
  bool version = false;
  CLI::App app(fmt::format("uroce_nvmf {}: an NVMe over Fabrics target over RDMA.", kVersion), "uroce_nvmf");
  app.footer(footer());
  app.get_formatter()->column_width(32);
  app.add_option("-c,--config", config, "Configuration file (TOML): subsystems, their namespaces and hosts");
  app.add_option("--nqn", simple.nqn, "Name of the subsystem");
  app.add_option("--namespace", namespaces, "Path of a block device or file, or memory:SIZE; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--allow-host", simple.hosts, "NQN of a host that may connect; may be repeated (default: every host)")
      ->allow_extra_args(false);
  app.add_option("--listen", options.listen.address, "Address to listen on (default: every address of every device)");
  app.add_option("--port", options.listen.port, "Port to listen on (default: 4420)")->check(CLI::Range(1, 65535));
  app.add_option("--max-queues", options.listen.max_queues, "Most queues of all hosts together (default: 1024)")
      ->check(CLI::Range(1u, 16384u));
  app.add_option("--buffers", options.buffers, "Buffers of 128 KiB between network and disk (default: 256)")
      ->check(CLI::Range(1u, 65536u));
  app.add_option("--socket", options.network.socket,
                 "The daemon's socket (default: UROCE_SOCKET, else /run/uroce/uroced.sock)");
  app.add_flag("-V,--version", version, "Print the version and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return std::unexpected(EarlyExit{0, app.help()});
  } catch (const CLI::ParseError& e) {
    return std::unexpected(refuse(fmt::format("{}; see uroce_nvmf --help", e.what())));
  }
  if (version) return std::unexpected(EarlyExit{0, fmt::format("uroce_nvmf {}", kVersion)});

  if (!config.empty()) {
    auto read = read_config(config);
    if (!read) return std::unexpected(refuse(read.error().text));
    options.subsystems = std::move(*read);
  }
  if (simple.nqn.empty() != namespaces.empty()) {
    return std::unexpected(refuse("--nqn and --namespace belong together; give both"));
  }
  for (const std::string& text : namespaces) {
    auto one = parse_namespace(text);
    if (!one) return std::unexpected(refuse(one.error().text));
    simple.namespaces.push_back(std::move(*one));
  }
  if (!simple.nqn.empty()) options.subsystems.push_back(std::move(simple));
  if (options.subsystems.empty()) {
    return std::unexpected(refuse("there is nothing to serve; give --nqn NAME --namespace PATH, or --config FILE"));
  }
  return options;
}

}  // namespace uroce::nvmf
