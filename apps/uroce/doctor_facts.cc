#include "uroce/doctor_facts.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <uroce/version.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "client/daemon_link.h"
#include "hugepages/huge_pages.h"
#include "message/connection.h"
#include "uroce/daemon_network.h"
#include "uroce/doctor_kernel_facts.h"

namespace uroce::cli {

namespace {

/// Whether this user may have a socket of the family.
bool can_open(int family, int type) {
  const int fd = socket(family, type | SOCK_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

template <class T>
std::optional<T> read_number(const std::string& path) {
  T value{};
  if (std::ifstream(path) >> value) return value;
  return std::nullopt;
}

/// Requests about one interface (netdevice(7)).
class Interface {
 public:
  explicit Interface(const std::string& name) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    name.copy(request_.ifr_name, IFNAMSIZ - 1);
  }
  ~Interface() {
    if (fd_ >= 0) close(fd_);
  }
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;

  bool up() { return ioctl(fd_, SIOCGIFFLAGS, &request_) == 0 && (request_.ifr_flags & IFF_UP) != 0; }
  int mtu() { return ioctl(fd_, SIOCGIFMTU, &request_) == 0 ? request_.ifr_mtu : 0; }
  EthAddr mac() {
    EthAddr out;
    if (ioctl(fd_, SIOCGIFHWADDR, &request_) == 0 && request_.ifr_hwaddr.sa_family == ARPHRD_ETHER)
      std::memcpy(out.bytes.data(), request_.ifr_hwaddr.sa_data, out.bytes.size());
    return out;
  }
  /// Whether a feature is on, by its name in ethtool -k.
  std::optional<bool> feature(std::string_view name) {
    Request<ethtool_sset_info> set(sizeof(uint32_t));
    set->cmd = ETHTOOL_GSSET_INFO;
    set->sset_mask = uint64_t{1} << ETH_SS_FEATURES;
    if (!ask(set) || set->sset_mask == 0 || set->data[0] > kMostFeatures) return std::nullopt;
    const uint32_t count = set->data[0], blocks = (count + 31) / 32;
    Request<ethtool_gstrings> strings(std::size_t{count} * ETH_GSTRING_LEN);
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_FEATURES;
    strings->len = count;
    Request<ethtool_gfeatures> features(blocks * sizeof(ethtool_get_features_block));
    features->cmd = ETHTOOL_GFEATURES;
    features->size = blocks;
    if (!ask(strings) || !ask(features)) return std::nullopt;
    for (uint32_t i = 0; i < count; ++i) {
      const char* own = reinterpret_cast<const char*>(strings->data) + std::size_t{i} * ETH_GSTRING_LEN;
      if (name == std::string_view(own, strnlen(own, ETH_GSTRING_LEN)))
        return (features->features[i / 32].active >> (i % 32) & 1) != 0;
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kMostFeatures = 1024;

  /// A structure of ethtool's with an array of some bytes at its end.
  template <class Head>
  class Request {
   public:
    explicit Request(std::size_t more_bytes) : words_((sizeof(Head) + more_bytes + 7) / 8) {}
    Head* operator->() { return reinterpret_cast<Head*>(words_.data()); }

   private:
    std::vector<uint64_t> words_;
  };

  template <class Head>
  bool ask(Request<Head>& request) {
    request_.ifr_data = reinterpret_cast<char*>(request.operator->());
    return ioctl(fd_, SIOCETHTOOL, &request_) == 0;
  }

  const int fd_;
  ifreq request_{};
};

std::optional<bool> either(std::optional<bool> a, std::optional<bool> b) {
  if (!a) return b;
  return *a || b.value_or(false);
}

std::vector<InterfaceFacts> read_interfaces() {
  std::vector<InterfaceFacts> out;
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(), if_freenameindex);
  for (const struct if_nameindex* one = all.get(); one != nullptr && one->if_index != 0; ++one) {
    Interface port(one->if_name);
    out.push_back({.name = one->if_name,
                   .up = port.up(),
                   .mtu = port.mtu(),
                   .mac = port.mac(),
                   .udp_segmentation = port.feature("tx-udp-segmentation"),
                   .checksums = either(port.feature("tx-checksum-ip-generic"), port.feature("tx-checksum-ipv4")),
                   .scatter_gather = port.feature("tx-scatter-gather"),
                   .failed_neighbours = failed_neighbours(one->if_index)});
  }
  return out;
}

/// Each call of a stopped daemon would wait for its time limit. True: it is stopped, or lets nobody in.
bool find_stopped_daemon(const Source& source, Facts& facts) {
  constexpr std::chrono::seconds kPatience{1};
  const std::string path = client::socket_path({.socket = source.socket});
  const auto connection = message::Connection::to(path, kPatience);
  if (!connection) {
    if (connection.error().code != ETIMEDOUT) return false;  // the first call tells more
    facts.daemon_error = ETIMEDOUT;
    facts.daemon_text = connection.error().text;
    return true;
  }
  facts.daemon_process = connection->peer_process();
  facts.daemon_stopped = stopped_process(facts.daemon_process);
  if (!facts.daemon_stopped) return false;
  facts.daemon_error = ETIMEDOUT;
  facts.daemon_text = fmt::format("the uroce daemon at {} (process {}) is stopped{}, so nothing that uses it goes on",
                                  path, facts.daemon_stopped->id, facts.daemon_stopped->traced ? " by a debugger" : "");
  return true;
}

std::vector<Gid> peers_of(const std::vector<ObjectRow>& queue_pairs) {
  std::set<Gid> out;
  for (const ObjectRow& row : queue_pairs) {
    for (const auto& [name, value] : row.values) {
      Gid gid;
      if (name == "dgid" && inet_pton(AF_INET6, value.c_str(), gid.bytes.data()) == 1 && gid != Gid{}) out.insert(gid);
    }
  }
  return {out.begin(), out.end()};
}

void ask_daemon(const Source& source, Facts& facts) {
  if (find_stopped_daemon(source, facts)) return;
  auto state = fetch_state(source);
  if (!state) {
    facts.daemon_error = state.error().code != 0 ? state.error().code : EIO;
    facts.daemon_text = state.error().text;
    return;
  }
  facts.daemon_version = state->version;
  for (metrics::DeviceState& device : state->devices)
    facts.counters.push_back({device.name, std::move(device.counters)});
  if (auto devices = fetch_devices(source)) facts.devices = std::move(*devices);
  if (auto row = fetch_restart(source)) facts.restart = std::move(*row);
  if (const auto rows = fetch_objects(source, message::Kind::qp)) facts.peers = peers_of(*rows);
}

// The facts that depend on the network namespace of the calling thread.
void read_network(Facts& facts) {
  facts.interfaces = read_interfaces();
  facts.roce_port_taken = roce_port_is_taken();
}

/// In the daemon's namespace, where there is a daemon and this program may go there.
void read_network_of_daemon(const Source& source, Facts& facts) {
  const bool no_daemon = facts.daemon_error != 0 && !facts.daemon_stopped;
  const std::string path = client::socket_path({.socket = source.socket});
  if (no_daemon || !is_in_another_network(facts.daemon_process, path).value_or(false)) return read_network(facts);
  facts.kernel_roce.clear();  // sysfs shows those of this program's namespace
  const bool entered = run_in_network_of(facts.daemon_process, [&facts] { read_network(facts); });
  facts.network = entered ? NetworkSeen::entered : NetworkSeen::hidden;
}

}  // namespace

Facts gather_facts(const Source& source) {
  Facts facts;
  utsname kernel{};
  if (uname(&kernel) == 0) std::sscanf(kernel.release, "%d.%d", &facts.kernel_major, &facts.kernel_minor);
  facts.packet_sockets = can_open(AF_PACKET, SOCK_RAW);
  facts.af_xdp = can_open(AF_XDP, SOCK_RAW) || errno == EPERM;
  if (const auto grouped = read_number<int>("/proc/sys/kernel/sched_autogroup_enabled"))
    facts.autogroup = *grouped != 0;
  facts.huge_pages = hugepages::read();
  read_kernel_facts(facts);
  facts.library_version = kVersion;
  ask_daemon(source, facts);
  read_network_of_daemon(source, facts);
  return facts;
}

}  // namespace uroce::cli
