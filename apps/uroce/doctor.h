// `uroce doctor`: the facts of a machine judged, each in a sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hugepages/huge_pages.h"
#include "uroce/daemon_process.h"
#include "uroce/rows.h"

namespace uroce::cli {

/// A network interface of the kernel.
struct InterfaceFacts {
  std::string name{};
  bool up = false;
  int mtu = 0;  ///< bytes
  EthAddr mac{};
  // Offloads; unset: the kernel does not say.
  std::optional<bool> udp_segmentation{};  ///< tx-udp-segmentation
  std::optional<bool> checksums{};         ///< tx-checksum-ip-generic or tx-checksum-ipv4
  std::optional<bool> scatter_gather{};    ///< tx-scatter-gather
  std::vector<Gid> failed_neighbours{};    ///< the kernel has looked for them in vain
};

/// A device of rxe, the kernel's own RoCE driver.
struct KernelRoce {
  std::string name{};
  std::string interface{};
};

/// The network namespace that the facts of interfaces are from.
enum class NetworkSeen {
  shared,   ///< this program's, which is the daemon's, too, as far as the kernel tells
  entered,  ///< the daemon's, which is another one
  hidden,   ///< none: the daemon's is another one, and closed to this program
};

/// The answers of the machine and of the daemon.
struct Facts {
  int kernel_major = 0, kernel_minor = 0;
  bool packet_sockets = false;      ///< this user may open them (CAP_NET_RAW)
  bool large_buffers = false;       ///< of its sockets, beyond the limit (CAP_NET_ADMIN)
  uint64_t receive_buffer_limit{};  ///< net.core.rmem_max, bytes
  bool af_xdp = false;              ///< the kernel has AF_XDP
  std::optional<bool> autogroup{};  ///< kernel.sched_autogroup_enabled; unset: the kernel has no autogroups
  std::vector<hugepages::HugePages> huge_pages{};
  NetworkSeen network = NetworkSeen::shared;
  std::vector<InterfaceFacts> interfaces{};
  std::vector<KernelRoce> kernel_roce{};
  bool roce_port_taken = false;  ///< a socket has UDP port 4791 of all the kernel's addresses
  bool nvmf_installed = false;
  int io_uring_disabled = 0;  ///< kernel.io_uring_disabled
  int io_uring_error = 0;     ///< errno of making one; 0: it works

  std::string library_version{};
  int daemon_error = 0;       ///< errno of the first call to the daemon; 0: it answers
  std::string daemon_text{};  ///< that error, in a sentence
  int daemon_process = 0;     ///< its id here; 0: not known
  std::optional<StoppedProcess> daemon_stopped{};
  std::string daemon_version{};
  std::vector<DeviceRow> devices{};
  std::vector<CounterRow> counters{};
  std::optional<RestartRow> restart{};  ///< unset: the daemon does not say
  std::vector<Gid> peers{};             ///< of queue pairs that this user may see
};

/// good: as it should be. slow: it works, but could do better. bad: it stands in the way.
enum class Verdict { good, slow, bad };

struct Finding {
  std::string topic;  ///< "hugepages", "device uroce0"
  Verdict verdict = Verdict::good;
  std::string text;    ///< a sentence without its period
  std::string remedy;  ///< what to do, likewise; empty when there is nothing to do
  bool operator==(const Finding&) const = default;
};

/// A command about the network, as it is to be given here.
std::string network_command(const Facts& facts, std::string_view command);

// Each judges its part of the facts.
Finding judge_kernel(const Facts& facts);
Finding judge_af_xdp(const Facts& facts);
Finding judge_autogroup(const Facts& facts);
std::vector<Finding> judge_huge_pages(const Facts& facts);
Finding judge_daemon(const Facts& facts);
std::vector<Finding> judge_restart(const Facts& facts);
std::vector<Finding> judge_network(const Facts& facts);
std::vector<Finding> judge_devices(const Facts& facts);
std::vector<Finding> judge_interfaces(const Facts& facts);
// And of doctor_kernel.cc:
std::vector<Finding> judge_capabilities(const Facts& facts);
std::vector<Finding> judge_kernel_roce(const Facts& facts);
std::vector<Finding> judge_neighbours(const Facts& facts);
std::vector<Finding> judge_io_uring(const Facts& facts);

/// All of them.
std::vector<Finding> judge(const Facts& facts);
bool something_is_bad(const std::vector<Finding>& findings);

std::string findings_text(const std::vector<Finding>& findings);
/// An array of objects in one line, without a newline.
std::string findings_json(const std::vector<Finding>& findings);

}  // namespace uroce::cli
