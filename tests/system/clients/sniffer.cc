// Sniffs a device until it has seen a number of RC messages pass in both directions. Written for libibverbs alone.
//
//   sniffer DEVICE MAC MESSAGES
//
// MAC is the device's own, and messages are SENDs of one packet. Prints "ready" when it sniffs, and then
// "sent N received N": how many different PSNs went each way. Ends with an error after 20 s, and at a wrong IPv4
// checksum.
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <vector>

namespace {

constexpr int kReceives = 1024;
constexpr std::size_t kFrameBytes = 2048;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

ibv_context* open_device(const char* name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** at = list; at != nullptr && *at != nullptr; ++at) {
    if (std::strcmp(ibv_get_device_name(*at), name) == 0) return ibv_open_device(*at);
  }
  return nullptr;
}

ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap.max_recv_wr = kReceives;
  init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RAW_PACKET;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == nullptr) return nullptr;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT) != 0) return nullptr;
  attr.qp_state = IBV_QPS_RTR;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0 ? qp : nullptr;
}

/// RFC 1071: the sum of a header with its checksum is all ones.
bool checksum_is_right(std::span<const uint8_t> header) {
  uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) sum += uint32_t{header[i]} << 8 | header[i + 1];
  return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/// The PSNs of RC SENDs of one packet, by direction.
struct Seen {
  std::array<uint8_t, 6> own{};
  std::set<uint32_t> sent, received;

  void add(std::span<const uint8_t> frame) {
    constexpr std::size_t kIp = 14, kUdp = kIp + 20, kBth = kUdp + 8;
    constexpr uint8_t kSendOnly = 0x04;
    if (frame.size() < kBth + 12 || frame[12] != 0x08 || frame[13] != 0x00) return;
    const bool roce = frame[kIp + 9] == 17 && frame[kUdp + 2] == 4791 >> 8 && frame[kUdp + 3] == (4791 & 0xff);
    if (!roce || frame[kBth] != kSendOnly) return;
    if (!checksum_is_right(frame.subspan(kIp, 20))) {
      std::fprintf(stderr, "a frame has a wrong IPv4 checksum\n");
      std::exit(1);
    }
    const uint32_t psn = uint32_t{frame[kBth + 9]} << 16 | uint32_t{frame[kBth + 10]} << 8 | frame[kBth + 11];
    (std::memcmp(&frame[6], own.data(), own.size()) == 0 ? sent : received).insert(psn);
  }
};

}  // namespace

int main(int argc, char** argv) {
  Seen seen;
  auto* mac = seen.own.data();
  if (argc != 4 ||
      std::sscanf(argv[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6) {
    std::fprintf(stderr, "write: sniffer DEVICE MAC MESSAGES\n");
    return 2;
  }
  const auto wanted = static_cast<std::size_t>(std::atoi(argv[3]));
  ibv_context* context = open_device(argv[1]);
  if (context == nullptr) die("cannot open the device");
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, kReceives, nullptr, nullptr, 0);
  std::vector<uint8_t> memory(kReceives * kFrameBytes);
  ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_qp* qp = make_qp(pd, cq);
  if (mr == nullptr || qp == nullptr) die("cannot create a raw packet queue pair");
  const auto post = [&](uint64_t slot) {
    ibv_sge where{reinterpret_cast<uint64_t>(&memory[slot * kFrameBytes]), kFrameBytes, mr->lkey};
    ibv_recv_wr receive{slot, nullptr, &where, 1}, *bad = nullptr;
    if (ibv_post_recv(qp, &receive, &bad) != 0) die("cannot post a receive");
  };
  for (uint64_t slot = 0; slot < kReceives; ++slot) post(slot);
  ibv_flow_attr sniffer{};
  sniffer.type = IBV_FLOW_ATTR_SNIFFER;
  sniffer.size = sizeof sniffer;
  sniffer.port = 1;
  ibv_flow* flow = ibv_create_flow(qp, &sniffer);
  if (flow == nullptr) die("cannot create the sniffer");
  std::printf("ready\n");
  std::fflush(stdout);

  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((seen.sent.size() < wanted || seen.received.size() < wanted) && std::chrono::steady_clock::now() < limit) {
    ibv_wc wc{};
    if (ibv_poll_cq(cq, 1, &wc) != 1) continue;
    if (wc.status != IBV_WC_SUCCESS) die("a receive failed");
    seen.add({&memory[wc.wr_id * kFrameBytes], wc.byte_len});
    post(wc.wr_id);
  }
  std::printf("sent %zu received %zu\n", seen.sent.size(), seen.received.size());
  const bool whole = seen.sent.size() == wanted && seen.received.size() == wanted;
  return ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(qp) == 0 && whole ? 0 : 1;
}
