// The options of uroce_perf: perftest's where they mean the same, and our own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/stack.h>

namespace uroce::perf {

/// `flush`: each message is a WRITE and the FLUSH of what it wrote.
enum class Verb : uint8_t { write, read, send, atomic, flush, raw };
enum class Kind : uint8_t { bw, lat };
enum class AtomicType : uint8_t { fetch_and_add, cmp_and_swap, write };
inline constexpr std::array<std::pair<std::string_view, AtomicType>, 3> kAtomicNames{{
    {"FETCH_AND_ADD", AtomicType::fetch_and_add},
    {"CMP_AND_SWAP", AtomicType::cmp_and_swap},
    {"WRITE", AtomicType::write},
}};

/// A benchmark.
struct Test {
  Verb verb = Verb::write;
  Kind kind = Kind::bw;
  friend bool operator==(const Test&, const Test&) = default;
};

/// Work requests of one message.
constexpr uint32_t requests_of_message(Test test) { return test.verb == Verb::flush ? 2 : 1; }

/// Messages of a ping-pong whose completion may be missing when the next one is sent: the peer's answer shows that ours
/// has arrived, and that its buffer is free. The ACK may come behind it.
inline constexpr uint32_t kUncompletedPings = 1;

/// "write_bw", or "uroce_write_bw" with any directory in front; nullopt for every other name.
std::optional<Test> test_by_name(std::string_view name);
/// "write_bw".
std::string test_name(Test test);
/// All names of tests, with commas between them.
std::string test_names();
/// The name in kAtomicNames.
std::string_view atomic_name(AtomicType type);

inline constexpr uint32_t kMostQps = 1u << 16;     ///< of -q
inline constexpr uint64_t kMaxAllSize = 1u << 23;  ///< bytes: the last size of -a, as perftest's

struct Options {
  Test test{};
  std::string program;           ///< as the user typed it, without directories
  std::vector<std::string> eal;  ///< the words before `--`, and what --interface adds
  std::string interface;         ///< of the kernel, on which the port is; empty: EAL's arguments name the port
  std::string host;              ///< the server's TCP host; empty on the server

  // Options of perftest, under perftest's names.
  uint64_t size = 0;  ///< bytes
  uint64_t iters = 0;
  double duration_s = 0;  ///< 0: run `iters` messages instead
  double margin_s = 0;    ///< not measured at each end of a timed run
  uint32_t qps = 1;
  uint32_t tx_depth = 0;
  uint32_t rx_depth = 0;
  uint32_t mtu = 0;  ///< path MTU, bytes; 0 takes the smaller port's
  bool all = false;
  bool bidirectional = false;
  uint16_t port = 18515;
  bool rdma_cm = false;  ///< QPs connect by rdma_cm
  bool report_gbits = false;
  uint32_t inline_size = 0;  ///< messages up to this many bytes go inline
  uint32_t outs = 0;         ///< READs and atomics outstanding; 0 for the device's limit
  bool events = false;
  uint8_t qp_timeout = 0;  ///< 4.096 us * 2^n; 0 never ends
  bool no_peak = false;
  uint32_t post_list = 1;
  uint32_t cq_mod = 0;
  std::string device;  ///< empty for the first
  AtomicType atomic_type = AtomicType::fetch_and_add;
  int gid_index = -1;         ///< -1 chooses: IPv4 first
  std::string out_json_file;  ///< empty for none; "-" for the standard output

  // Our own options.
  bool verify = false;
  bool progress = false;
  bool back_to_back = false;
  Retransmission retransmission = Retransmission::device_default;
  CongestionAlgorithm congestion_control = CongestionAlgorithm::device_default;
  bool daemon = false;  ///< use devices of a running uroced instead of a stack in this process
  std::string socket;   ///< the daemon's socket; empty for the default
  double peer_timeout_s = 30;
  double connect_timeout_s = 0;  ///< 0 waits for ever
  StackOptions stack{};

  bool timed() const { return duration_s > 0; }
  /// Messages of a queue pair; in a timed run more than it ever sends.
  uint64_t most_messages() const { return timed() ? uint64_t{1} << 62 : iters; }
  bool is_client() const { return !host.empty(); }
  /// The sizes of this run, bytes.
  std::vector<uint64_t> sizes() const;
};

}  // namespace uroce::perf
