// The side of the kill loop that dies: makes some of every object, and streams SENDs and WRITEs to the peer for ever.
//
// Usage: victim FOLDER I
#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr uint32_t kLength = 32768;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) die("usage: victim FOLDER I");
  const std::string folder = argv[1], number = argv[2];
  Side side("uroce0");
  auto channel = must(side.context.create_channel());
  auto other_cq = must(side.context.create_cq(100, &channel));
  auto srq = must(side.context.create_srq(side.pd, 64, 2));
  std::vector<QueuePair> idle;
  std::vector<MemoryRegion> regions;
  std::vector<AddressHandle> handles;
  const Gid gid = first_gid("uroce1");
  for (int i = 0; i < 8; ++i) {
    idle.push_back(must(side.context.create_qp(side.pd, other_cq, other_cq, {}, i % 2 == 0 ? &srq : nullptr)));
    regions.push_back(must(side.pd.register_memory(side.memory.data(), 4096, Side::kAll)));
    handles.push_back(must(side.pd.create_address_handle({.dgid = gid})));
  }
  auto qp = side.make_qp();
  side.address(qp, 9).write(folder + "/victim-" + number);
  std::optional<Address> peer;
  while (!(peer = Address::read(folder + "/peer-" + number))) usleep(200);
  must(qp.connect({gid, peer->qpn, peer->psn}, {.psn = 9, .timeout = 14}));
  const Sge source = side.mr.sge(0, kLength);
  const auto post = [&](uint64_t i) {
    return qp.post_send({.opcode = i % 4 == 0 ? WrOpcode::send : WrOpcode::rdma_write,
                         .flags = SendFlag::signaled,
                         .sges = {&source, 1},
                         .remote_addr = peer->memory,
                         .rkey = peer->rkey});
  };
  for (uint64_t i = 0; i < 8; ++i) {
    if (post(i) != 0) die("post_send");
  }
  std::puts("streaming"), std::fflush(stdout);
  for (uint64_t i = 0;; ++i) {
    const auto completion = side.next([] { return false; });
    if (completion->status != WcStatus::success) {
      die("status " + std::to_string(static_cast<int>(completion->status)));
    }
    (void)post(i);
  }
}
