// ROUNDS times lets an engine write into memory of its own and punches all of that memory meanwhile. The engine then
// waits until the kernel has freed it. Connects and registers anew where the daemon has ended the connection.
//
// Usage: puncher ROUNDS MIB [GO]
// With GO it registers kBefore memories, says so, waits until that file exists, and punches them first. An engine that
// had no CPU meanwhile waits for none of them, so one would not do.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <list>
#include <optional>
#include <thread>

#include "side.h"

using namespace uroce;
using namespace uroce::test;

namespace {

constexpr uint32_t kLength = 65536;
constexpr int kWrites = 8;
constexpr int kBefore = 8;

struct Memory {
  explicit Memory(std::size_t size) : fd(memfd_create("punched", 0)), bytes(size) {
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) die("ftruncate");
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) die("mmap");
    data = static_cast<std::byte*>(at);
  }
  void fill() const {
    if (madvise(data, bytes, MADV_POPULATE_WRITE) != 0) die("no memory");
  }
  void punch() const {
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0) die("fallocate");
  }
  int fd;
  std::size_t bytes;
  std::byte* data;
};

struct End {
  Context context;
  ProtectionDomain pd;
  CompletionQueue cq;
  MemoryRegion mr;
  QueuePair qp;

  static Result<End> open(const char* device, std::byte* data, std::size_t bytes) {
    auto context = open_daemon_device(device);
    if (!context) return std::unexpected(context.error());
    auto pd = context->create_pd();
    if (!pd) return std::unexpected(pd.error());
    auto cq = context->create_cq(1024);
    if (!cq) return std::unexpected(cq.error());
    auto mr = pd->register_memory(data, bytes, Side::kAll);
    if (!mr) return std::unexpected(mr.error());
    auto qp = context->create_qp(*pd, *cq, *cq, {.cap = {}});
    if (!qp) return std::unexpected(qp.error());
    return End{std::move(*context), std::move(*pd), std::move(*cq), std::move(*mr), std::move(*qp)};
  }
};

struct Attack {
  End from, to;

  static Result<Attack> open(const Memory& source, const Memory& target) {
    auto from = End::open("uroce0", source.data, source.bytes);
    if (!from) return std::unexpected(from.error());
    auto to = End::open("uroce1", target.data, target.bytes);
    if (!to) return std::unexpected(to.error());
    const auto there = from->qp.connect({to->context.info().gids[0], to->qp.qpn(), 1}, {.psn = 1, .timeout = 18});
    const auto back = to->qp.connect({from->context.info().gids[0], from->qp.qpn(), 1}, {.psn = 1});
    if (!there || !back) return std::unexpected(there ? back.error() : there.error());
    return Attack{std::move(*from), std::move(*to)};
  }

  /// Punches while the engine writes there all the time. Whether the daemon has served it.
  bool once(const Memory& target) {
    std::atomic<bool> punched{false};
    bool good = true;
    std::thread writer([&] {
      for (int i = 0; good && (i < kWrites || !punched); ++i) good = write(target);
    });
    usleep(2000);
    target.punch();
    punched = true;
    writer.join();
    return good;
  }

  /// Whether the daemon still serves it.
  bool served() { return from.context.create_pd().has_value() && to.context.create_pd().has_value(); }

  bool write(const Memory& target) {
    const Sge source = from.mr.sge(0, kLength);
    if (from.qp.post_send({.opcode = WrOpcode::rdma_write,
                           .flags = SendFlag::signaled,
                           .sges = {&source, 1},
                           .remote_addr = reinterpret_cast<uint64_t>(target.data) + target.bytes / 2,
                           .rkey = to.mr.rkey()}) != 0) {
      return false;
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    Completion completion;
    while (from.cq.poll({&completion, 1}) == 0) {
      if (std::chrono::steady_clock::now() > limit) return false;
    }
    return completion.status == WcStatus::success;
  }
};

struct Before {
  explicit Before(const Memory& source, std::size_t bytes) : target(bytes) {
    target.fill();
    attack.emplace(must(Attack::open(source, target)));
  }
  Memory target;
  std::optional<Attack> attack;
};

/// How many memories it has punched until the daemon served it no longer.
int punch_what_was_registered(const Memory& source, std::size_t bytes, const char* go) {
  source.fill();
  std::list<Before> all;
  for (int i = 0; i < kBefore; ++i) all.emplace_back(source, bytes);
  std::puts("registered");
  std::fflush(stdout);
  while (!exists(go)) usleep(1000);
  int punched = 0;
  for (Before& one : all) {
    ++punched;
    one.attack->once(one.target);
    if (!one.attack->served()) break;
  }
  return punched;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) die("usage: puncher ROUNDS MIB [GO]");
  const Memory source(kLength), target(std::strtoul(argv[2], nullptr, 10) << 20);
  std::optional<Attack> attack;
  int punched = 0, refused = 0;
  std::string why;
  if (argc == 4) punched = punch_what_was_registered(source, target.bytes, argv[3]);
  for (int i = 0; i < std::atoi(argv[1]); ++i) {
    if (!attack) {
      // The daemon refuses before it looks at holes, so fill only what can be registered.
      source.fill();
      if (refused == 0) target.fill();
      if (auto made = Attack::open(source, target)) {
        attack.emplace(std::move(*made));
      } else {
        ++refused;
        why = made.error().text;
        continue;
      }
    }
    target.fill();
    ++punched;
    if (!attack->once(target)) attack.reset();
  }
  std::printf("%d punched, %d refused: %s\n", punched, refused, why.c_str());
}
