#include "perf/options_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/kif/name.h"

namespace uroce::perf {
namespace {

// Defaults of perftest (perftest.1).
constexpr uint64_t kSizeBw = 65536, kSizeLat = 2, kSizeAtomic = 8, kSizeRaw = 4096, kSizeRawLat = 60;
constexpr uint64_t kIters = 1000, kItersWriteBw = 5000;
constexpr uint32_t kTxDepthBw = 128, kTxDepthLat = 1, kRxDepth = 512, kCqMod = 100;
constexpr uint32_t kInlineWriteLat = 220, kInlineSendLat = 236;
constexpr uint64_t kLargestModerated = 8192;  ///< above this size every message is signaled, without -Q
constexpr uint64_t kLargestPeakIters = 20000;
constexpr double kClientConnectSeconds = 30, kServerConnectSeconds = 600;
// A peer whose core others have taken is silent for seconds: 8 tries of 1.07 s. Selective recovery does not wait for
// this timeout. Go-Back-N does after it lost the last packet, so it has perftest's: 8 tries of 67 ms.
constexpr uint8_t kPatientTimeout = 18, kGoBackNTimeout = 14;

void fill_defaults(Options& o, const OptionMarks& marks) {
  const bool bw = o.test.kind == Kind::bw;
  const bool is_atomic = o.test.verb == Verb::atomic;
  if (o.size == 0) {
    o.size = o.test.verb == Verb::raw ? (bw ? kSizeRaw : kSizeRawLat)
             : is_atomic              ? kSizeAtomic
             : bw                     ? kSizeBw
                                      : kSizeLat;
  }
  if (o.all) o.size = kMaxAllSize;
  if (o.iters == 0) o.iters = o.test == Test{Verb::write, Kind::bw} ? kItersWriteBw : kIters;
  if (o.tx_depth == 0) o.tx_depth = bw ? kTxDepthBw : kTxDepthLat;
  if (o.rx_depth == 0) o.rx_depth = kRxDepth;
  if (o.margin_s == marks.unset_s) o.margin_s = o.duration_s / 4;
  if (o.connect_timeout_s == marks.unset_s)
    o.connect_timeout_s = o.is_client() ? kClientConnectSeconds : kServerConnectSeconds;
  if (o.qp_timeout == marks.unset_code) {
    o.qp_timeout = o.retransmission == Retransmission::go_back_n ? kGoBackNTimeout : kPatientTimeout;
  }
  if (o.inline_size == marks.unset) {
    o.inline_size = bw ? 0 : o.test.verb == Verb::send ? kInlineSendLat : kInlineWriteLat;
  }
  if (o.test.verb == Verb::read || is_atomic) o.inline_size = 0;
  // The defaults of both sides must not give them the same address.
  // Those of such a port are the kernel's, unless a tag or a gateway asks for its own.
  const bool kernels =
      o.stack.vlan == 0 && o.stack.gateway.empty() &&
      std::ranges::any_of(o.eal, [](const std::string& word) { return word.contains(glue::kKernelInterfaceDriver); });
  if (o.stack.addresses.empty() && o.is_client() && !kernels) o.stack.addresses = {"10.117.0.101/24"};
  o.stack.back_to_back = o.back_to_back;
}

void limit_depths(Options& o) {
  if (!o.timed()) {
    o.tx_depth = static_cast<uint32_t>(std::min<uint64_t>(o.tx_depth, o.iters));
    o.rx_depth = static_cast<uint32_t>(std::min<uint64_t>(o.rx_depth, o.iters));
  }
  const bool moderated_by_default = o.size <= kLargestModerated || o.all || o.events;
  if (o.cq_mod == 0) o.cq_mod = o.post_list > 1 ? o.post_list : moderated_by_default ? kCqMod : 1;
  o.cq_mod = std::min(o.cq_mod, o.tx_depth);
  if (o.timed() || o.iters > kLargestPeakIters) o.no_peak = true;
}

std::optional<std::string> check_lists(const Options& o) {
  if (o.post_list == 1) return std::nullopt;
  if (o.post_list > o.tx_depth) {
    return fmt::format("-l {} is larger than -t {}; lower -l or raise -t", o.post_list, o.tx_depth);
  }
  if (!o.timed() && o.iters % o.post_list != 0) {
    return fmt::format("-n {} is not a multiple of -l {}; choose one that is", o.iters, o.post_list);
  }
  if (o.post_list % o.cq_mod != 0) {
    return fmt::format("-l {} is not a multiple of -Q {}; choose one that is", o.post_list, o.cq_mod);
  }
  return std::nullopt;
}

std::optional<std::string> check_kind(const Options& o) {
  if (o.test.kind == Kind::bw) return std::nullopt;
  if (o.qps > 1) return fmt::format("-q {} is only for bandwidth tests; a latency test has one QP", o.qps);
  if (o.bidirectional) return "-b is only for bandwidth tests; a latency test already sends in both directions";
  if (o.tx_depth > 1)
    return fmt::format("-t {} is only for bandwidth tests; a latency test has one message outstanding", o.tx_depth);
  if (o.post_list > 1) return fmt::format("-l {} is only for bandwidth tests", o.post_list);
  if (o.events && o.test.verb == Verb::write)
    return "-e is not for write_lat: a WRITE raises no event at the receiver; leave -e out";
  return std::nullopt;
}

std::optional<std::string> check_daemon(const Options& o) {
  if (!o.daemon) return o.socket.empty() ? std::nullopt : std::optional("--socket needs --daemon; add it");
  if (!o.interface.empty()) return "the daemon has its own ports; leave --interface out";
  if (!o.eal.empty()) return fmt::format("--daemon starts no EAL here; leave \"{}\" out", o.eal.front());
  if (o.test.verb == Verb::raw) return test_name(o.test) + " measures a port of this process; leave --daemon out";
  if (!o.stack.addresses.empty() || !o.stack.gateway.empty() || o.stack.mtu != StackOptions{}.mtu ||
      o.stack.vlan != 0) {
    return "the daemon has its own addresses, MTU and VLAN; leave --address, --gateway, --port-mtu and --vlan out";
  }
  return std::nullopt;
}

void add_interface(Options& o) {
  if (o.eal.empty()) o.eal = glue::private_arguments();
  o.eal.push_back(glue::interface_argument(o.interface));
}

}  // namespace

std::optional<std::string> apply_rules(Options& o, const OptionMarks& marks, bool explicit_size) {
  if (o.all && explicit_size) return "-a runs all sizes, but -s names one; leave one of them out";
  if (o.test.verb == Verb::atomic && (o.all || (explicit_size && o.size != kSizeAtomic))) {
    return "an atomic has 8 bytes; leave -s and -a out";
  }
  if (o.back_to_back && !o.host.empty()) {
    return fmt::format("--back-to-back runs server and client in one process; leave the host \"{}\" out", o.host);
  }
  if (o.rdma_cm && o.test.verb == Verb::raw) return test_name(o.test) + " has no QPs to connect; leave -R out";
  if (auto problem = check_daemon(o)) return problem;
  if (!o.interface.empty()) add_interface(o);
  if (o.margin_s > 0 && !o.timed()) return "-f is only for timed runs; add -D";
  fill_defaults(o, marks);
  if (o.timed() && o.margin_s * 2 >= o.duration_s) {
    return fmt::format("-f {} at both ends leaves nothing of -D {}; lower -f", o.margin_s, o.duration_s);
  }
  if (auto problem = check_kind(o)) return problem;
  limit_depths(o);
  o.stack.settings.max_qp = std::max(o.stack.settings.max_qp, o.qps);
  return check_lists(o);
}

}  // namespace uroce::perf
