// Parts that these clients of the daemon share: one of each object, addresses passed through files, and plain failure.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <uroce/daemon.h>

namespace uroce::test {

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  _exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) die(result.error().text);
  return std::move(*result);
}
inline void must(const Result<void>& result) {
  if (!result) die(result.error().text);
}

inline bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

/// One queue pair's address, as it goes through a file.
struct Address {
  uint32_t qpn = 0, psn = 0, rkey = 0;
  uint64_t memory = 0;

  void write(const std::string& path) const {
    std::ofstream(path + ".new") << qpn << ' ' << psn << ' ' << rkey << ' ' << memory << '\n';
    std::rename((path + ".new").c_str(), path.c_str());
  }
  static std::optional<Address> read(const std::string& path) {
    Address out;
    if (std::ifstream(path) >> out.qpn >> out.psn >> out.rkey >> out.memory) return out;
    return std::nullopt;
  }
};

/// A context with one of each object, and registered memory.
struct Side {
  static constexpr std::size_t kBytes = 1 << 18;
  static constexpr AccessFlags kAll =
      AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read | Access::remote_atomic;

  explicit Side(const std::string& device, uint32_t cq_entries = 1024)
      : context(must(open_daemon_device(device))),
        pd(must(context.create_pd())),
        cq(must(context.create_cq(cq_entries))),
        memory(kBytes),
        mr(must(pd.register_memory(memory.data(), memory.size(), kAll))) {}

  QueuePair make_qp(const QpCap& cap = {}) { return must(context.create_qp(pd, cq, cq, {.cap = cap})); }
  Address address(const QueuePair& qp, uint32_t psn) const {
    return {qp.qpn(), psn, mr.rkey(), reinterpret_cast<uint64_t>(memory.data())};
  }
  /// The next completion, or nullopt once `give_up` says so.
  template <class GiveUp>
  std::optional<Completion> next(GiveUp give_up) {
    Completion completion;
    for (uint32_t empty = 0; cq.poll({&completion, 1}) == 0; ++empty) {
      if (give_up()) return std::nullopt;
      if (empty > 100) usleep(50);  // few cores, many programs
    }
    return completion;
  }

  Context context;
  ProtectionDomain pd;
  CompletionQueue cq;
  std::vector<std::byte> memory;
  MemoryRegion mr;
};

/// Addresses of the other device's ports: programs here know both.
inline Gid first_gid(const std::string& device) {
  for (const DeviceInfo& info : must(daemon_devices())) {
    if (info.name == device && !info.gids.empty()) return info.gids[0];
  }
  die("the daemon has no device " + device);
}

}  // namespace uroce::test
