#include "nvmf/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <cerrno>
#include <utility>

#include "arguments/program.h"
#include "arguments/settings.h"
#include "nvmf/config.h"
#include "pmd_glue/eal_args.h"
#include "settings/setting.h"

namespace uroce::nvmf {

namespace {

constexpr int kUsage = 2;

std::string footer() {
  return R"(Words before `--` go to DPDK's EAL (lcores, devices, hugepages). Without `--` all words are the program's own. Each lcore
runs an engine and serves its share of the I/O queues.

A namespace is a block device, a regular file, or memory:SIZE with suffix K, M, G or T, for tests. Its number is its place
among the --namespace options, from 1.

Examples:
  A disk for one host, on an interface that the kernel keeps:
    uroce_nvmf --interface eth0 --nqn nqn.2024-01.org.example:disks --namespace /dev/sdb --allow-host nqn.2014-08...
  A disk on an interface that the kernel keeps, served by lcores 1 and 2:
    uroce_nvmf --interface eth0 --lcores 1-2 --nqn nqn.2024-01.org.example:disks --namespace /dev/sdb
  A card of its own, served by lcores 1 and 2:
    uroce_nvmf -l 1,2 -a 0000:03:00.0 -- --address 192.0.2.1/24 --config /etc/uroce/nvmf.toml
  Memory for every host, to try it, through the running uroced:
    uroce_nvmf --daemon --nqn nqn.2024-01.org.example:try --namespace memory:1G
  On the host (Linux, as root):
    nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2024-01.org.example:try
Signals: SIGTERM and SIGINT end the connections and then the program. After SIGHUP it takes the sizes that disks have now,
and tells the hosts.
Exit codes: 0 success, 1 failure, 2 unusable command line or configuration.)";
}

EarlyExit refuse(const std::string& text) { return {kUsage, "uroce_nvmf: " + text}; }

/// Words as they stand on the command line.
struct Words {
  bool no_seccomp = false;
  SubsystemSettings subsystem{};
  std::vector<std::string> namespaces{};
  std::vector<std::string> interfaces{};
  std::string config{}, lcores{};
  bool version = false;
};

void add_disks(arguments::Command& program, Options& options, Words& words) {
  program.text("-c,--config", words.config,
               "Configuration file (TOML): interface, listen, lcores; subsystems, their namespaces and hosts");
  program.text("--nqn", words.subsystem.nqn, "Name of the subsystem");
  program.texts("--namespace", words.namespaces, "Path of a block device or file, or memory:SIZE; may be repeated");
  program.texts("--allow-host", words.subsystem.hosts,
                "NQN of a host that may connect; may be repeated (default: every host)");
  program.texts("--listen", options.listen.addresses,
                "Address to listen on, which discovery tells hosts; may be repeated, for several paths (default: every "
                "address of every device, and discovery tells the one that it was asked at)");
  program.number("--port", options.listen.port, 1, 65535, "Port to listen on (default: 4420)");
  program.number("--max-queues", options.listen.max_queues, 1, 16384,
                 "Most queues of all hosts together (default: 1024)");
  program.number("--buffers", options.buffers, 1, 65536,
                 "Buffers of 128 KiB between network and disk, shared out to the lcores (default: 256)");
}

void add_network(arguments::Command& program, Options& options, Words& words) {
  program.texts("--interface", words.interfaces,
                "Network interface of the kernel, which keeps it, as a port; may be repeated");
  const auto take_lcores = [&words](const std::string& text) {
    words.lcores = text;
    return std::string(glue::fault_of_lcores(text));
  };
  program.value(
      "--lcores", take_lcores,
      "Lcores, as for EAL's --lcores: 1-2, or (0,1)@2 for two on CPU 2; each serves its share of the I/O queues "
      "(default: with --interface one CPU, else the EAL arguments')");
  program.texts("--address", options.stack.addresses,
                "Addresses of a port, A/len[,A/len...], or \"kernel\": those of its interface; once for each port, in "
                "port order (default: \"kernel\" with --interface, else 10.117.0.1/24, 10.117.0.2/24, ...)");
  arguments::add_settings(program, settings::kNvmf, options.stack);
  program.flag("--daemon", options.daemon,
               "Use the devices of the running uroced: the default without --interface and EAL arguments");
  program.text("--socket", options.daemon_options.socket,
               "The daemon's socket (default: UROCE_SOCKET, else /run/uroce/uroced.sock)");
}

/// Without a port of its own the program uses the daemon's.
std::string fault_of_network(Options& options, const Words& words) {
  const bool port = !words.interfaces.empty() || !options.eal.empty();
  if (options.daemon && (port || !options.stack.addresses.empty() || !words.lcores.empty())) {
    return "the daemon has its own ports and lcores; leave --interface, --address, --lcores and EAL arguments out";
  }
  if (port && !options.daemon_options.socket.empty()) {
    return "--socket is for the daemon's devices; leave it out, or --interface and EAL arguments";
  }
  if (!port && !options.stack.addresses.empty()) {
    return "--address has no port; add --interface NAME, or EAL arguments that name a port before `--`";
  }
  if (!port && !words.lcores.empty()) {
    return fmt::format(
        "lcores {} have no port, and the daemon has its own; name a port by --interface, by interface in "
        "the file, or by EAL arguments before `--`",
        words.lcores);
  }
  if (!words.lcores.empty() && glue::names_lcores(options.eal)) {
    return "--lcores and the EAL arguments both name lcores; leave one of them out";
  }
  options.daemon = !port;
  if (options.daemon) return {};
  if (options.eal.empty()) {
    options.eal = glue::private_arguments(words.lcores);
  } else if (!words.lcores.empty()) {
    options.eal.push_back("--lcores=" + words.lcores);
  }
  for (std::size_t number = 0; number < words.interfaces.size(); ++number) {
    options.eal.push_back(glue::interface_argument(words.interfaces[number], number));
  }
  return {};
}

/// The command line's choice of ports, of addresses and of lcores goes before the file's.
Result<void> take_file(Options& options, Words& words) {
  if (words.config.empty()) return {};
  auto read = read_config(words.config);
  if (!read) return std::unexpected(read.error());
  options.subsystems = std::move(read->subsystems);
  const bool daemon = options.daemon || !options.daemon_options.socket.empty();
  if (words.interfaces.empty() && options.eal.empty() && !daemon) words.interfaces = std::move(read->interfaces);
  if (words.lcores.empty() && !glue::names_lcores(options.eal) && !daemon) words.lcores = std::move(read->lcores);
  if (options.listen.addresses.empty()) options.listen.addresses = std::move(read->listen);
  return {};
}

Result<void> take_subsystems(Options& options, Words& words) {
  if (words.subsystem.nqn.empty() != words.namespaces.empty()) {
    return fail(EINVAL, "--nqn and --namespace belong together; give both");
  }
  if (words.subsystem.nqn.empty() && !words.subsystem.hosts.empty()) {
    return fail(EINVAL, "--allow-host is for the subsystem of --nqn; write the file's hosts into the file");
  }
  for (const std::string& text : words.namespaces) {
    auto one = parse_namespace(text);
    if (!one) return std::unexpected(one.error());
    words.subsystem.namespaces.push_back(std::move(*one));
  }
  if (!words.subsystem.nqn.empty()) options.subsystems.push_back(std::move(words.subsystem));
  if (options.subsystems.empty()) {
    return fail(EINVAL,
                "there is nothing to serve; give --nqn NAME --namespace PATH, or --config FILE with a [[subsystem]]");
  }
  return {};
}

}  // namespace

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv) {
  Options options;
  Words words;
  auto [eal, own] = glue::split_words(argc, argv);
  options.eal = std::move(eal);
  arguments::Program program("uroce_nvmf",
                             fmt::format("uroce_nvmf {}: an NVMe over Fabrics target over RDMA.", kVersion),
                             "uroce_nvmf [EAL arguments --]", "; EAL arguments go before `--`; see uroce_nvmf --help");
  program.footer(footer());
  add_disks(program, options, words);
  add_network(program, options, words);
  program.text(
      "--user", options.user,
      "User that root becomes once disks and ports are open (default: uroce-nvmf, if there is one; \"\": stay root)");
  program.flag("--no-seccomp", words.no_seccomp, "Limit no system calls, for a driver that needs others");
  program.flag("-V,--version", words.version, "Print the version and exit");
  if (auto exit = program.parse(std::move(own))) return std::unexpected(std::move(*exit));
  if (words.version) return std::unexpected(EarlyExit{0, fmt::format("uroce_nvmf {}", kVersion)});
  options.filter = !words.no_seccomp;
  if (auto taken = take_file(options, words); !taken) return std::unexpected(refuse(taken.error().text));
  if (const auto fault = fault_of_network(options, words); !fault.empty()) return std::unexpected(refuse(fault));
  if (auto taken = take_subsystems(options, words); !taken) return std::unexpected(refuse(taken.error().text));
  return options;
}

}  // namespace uroce::nvmf
