#include "nldev/kernel_counters.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace uroce::nldev {

namespace {

/// The sum of some of the daemon's counters, less one of them.
struct KernelCounter {
  std::string_view name;
  std::array<std::string_view, 8> terms;
  uint64_t divisor = 1;
  std::string_view less{};
};

constexpr uint64_t kBytesOfWord = 4;

constexpr KernelCounter kOfPort[] = {
    {"port_rcv_data", {"rx_bytes"}, kBytesOfWord},
    {"port_rcv_packets", {"rx_packets"}},
    {"port_xmit_data", {"tx_bytes"}, kBytesOfWord},
    {"port_xmit_packets", {"tx_packets"}},
    {"port_rcv_errors",
     {"drop_truncated", "drop_ip_header_invalid", "drop_ip_length", "drop_bth_version", "drop_icrc",
      "port_bad_ip_checksum", "port_oversize"}},
    {"port_xmit_discards", {"kif_tx_dropped", "udp_tx_dropped"}},
};

constexpr KernelCounter kOfHardware[] = {
    // rxe
    {"sent_pkts", {"tx_packets"}},
    {"rcvd_pkts", {"rx_packets"}},
    {"duplicate_request", {"drop_psn_duplicate"}},
    {"rcvd_rnr_err", {"rnr_naks_received"}},
    {"send_rnr_err", {"rnr_naks_sent"}},
    // mlx5
    {"out_of_sequence", {"drop_psn_out_of_order", "parked_packets", "drop_parking_full"}},
    {"rnr_nak_retry_err", {"rnr_naks_received"}},
    {"local_ack_timeout_err", {"timeouts"}},
    {"rx_icrc_encapsulated", {"drop_icrc"}},
    {"np_cnp_sent", {"cnps_sent"}},
    {"np_ecn_marked_roce_packets", {"ecn_marked_received"}},
    {"rp_cnp_handled", {"cnps_received"}, 1, "cnps_ignored"},
    {"rp_cnp_ignored", {"cnps_ignored"}},
};

Counters in_names_of(std::span<const KernelCounter> table, const Counters& device) {
  Counters out;
  for (const KernelCounter& row : table) {
    uint64_t sum = 0, less = 0;
    bool counted = false;
    for (const auto& [name, value] : device) {
      if (name.empty()) continue;
      if (name == row.less) less = value;
      if (std::ranges::find(row.terms, name) == row.terms.end()) continue;
      sum += value;
      counted = true;
    }
    // The daemon reads one after the other while they grow.
    sum -= std::min(sum, less);
    if (counted) out.emplace_back(row.name, sum / row.divisor);
  }
  return out;
}

}  // namespace

Counters port_counters(const Counters& device) { return in_names_of(kOfPort, device); }

Counters hardware_counters(const Counters& device) { return in_names_of(kOfHardware, device); }

}  // namespace uroce::nldev
