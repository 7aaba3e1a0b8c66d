// The long-lived side of the kill loop. For every FOLDER/victim-I it makes a queue pair, streams WRITEs to the victim
// once that talks or is said to be dead (FOLDER/dead-I), and tells how the queue pair ended.
//
// Usage: peer FOLDER
#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr uint32_t kLength = 32768;

// 4.096 us * 2^10 and 5 retries: a peer that is gone is known to be within about 100 ms (IBTA vol. 1, 9.7.6.1.3).
constexpr QueuePair::ConnectOptions kOptions{.psn = 7, .timeout = 10, .retry_cnt = 5};

void stream(Side& side, QueuePair& qp, const Address& victim, const std::string& dead) {
  const Sge source = side.mr.sge(0, kLength), target = side.mr.sge(kLength, kLength);
  for (uint64_t i = 0; i < 8; ++i) {
    if (qp.post_recv({.wr_id = 1000 + i, .sges = {&target, 1}}) != 0) die("post_recv");
  }
  const auto write = [&] {
    return qp.post_send({.opcode = WrOpcode::rdma_write,
                         .flags = SendFlag::signaled,
                         .sges = {&source, 1},
                         .remote_addr = victim.memory,
                         .rkey = victim.rkey});
  };
  bool streaming = false;
  const auto begin = [&] {
    streaming = true;
    for (int i = 0; i < 4; ++i) {
      if (write() != 0) die("post_send");
    }
  };
  while (true) {
    const auto completion = side.next([&] { return !streaming && exists(dead); });
    if (!completion) {
      begin();
      continue;
    }
    if (completion->status != WcStatus::success) {
      std::printf("ended with status %d\n", static_cast<int>(completion->status));
      return;
    }
    if (!streaming) begin();
    if (completion->wr_id >= 1000) {
      (void)qp.post_recv({.wr_id = completion->wr_id, .sges = {&target, 1}});
    } else {
      (void)write();
    }
  }
}

void serve(Side& side, const Gid& gid, const std::string& folder, const std::string& number) {
  const std::string path = folder + "/victim-" + number, dead = folder + "/dead-" + number;
  while (!exists(path) && !exists(dead)) {
    if (exists(folder + "/stop")) return;
    usleep(1000);
  }
  std::printf("round %s: ", number.c_str());
  const auto victim = Address::read(path);
  if (!victim) {
    std::puts("never met");
  } else {
    auto qp = side.make_qp();
    must(qp.connect({gid, victim->qpn, victim->psn}, kOptions));
    side.address(qp, kOptions.psn).write(folder + "/peer-" + number);
    stream(side, qp, *victim, dead);
    if (must(qp.query()).state != QpState::error) die("the queue pair is not in error");
  }
  std::fflush(stdout);
  // The flushed rest.
  Completion rest[64];
  while (side.cq.poll(rest) != 0) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) die("usage: peer FOLDER");
  const std::string folder = argv[1];
  Side side("uroce1");
  const Gid gid = first_gid("uroce0");
  std::puts("ready"), std::fflush(stdout);
  for (uint64_t number = 0; !exists(folder + "/stop"); ++number) serve(side, gid, folder, std::to_string(number));
  return 0;
}
