// A client that makes its objects properly and then means harm: for SECONDS, several threads write into every byte of
// queue memory that the daemon shares with it, ring doorbells and wake engines, while another one takes the queue pairs
// from RESET to RTS again and again, so that engines go on reading.
//
// Usage: hostile FOLDER rubbish|structured SEED SECONDS
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "client/device_link.h"
#include "message/device_messages.h"
#include "message/memory_messages.h"
#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "queues/place.h"
#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;
using client::DeviceLink;
using message::Op;
using Random = std::mt19937_64;

constexpr uint32_t kDepth = 64, kSge = 4, kQps = 8;
constexpr std::size_t kBytes = 1 << 16;

struct HostileQp {
  uint32_t id, qpn, engine;
  QpType type;
  queues::QpPlace place;
};

/// One device's objects, over a link of its own, without a library that would trip over what the threads write.
struct Hostile {
  std::shared_ptr<DeviceLink> link;
  message::OpenDeviceReply device;
  std::vector<message::Fd> fds;
  uint32_t pd = 0, cq = 0, key = 0, ah = 0;
  std::vector<std::byte> memory{kBytes};
  std::vector<HostileQp> qps;
  std::vector<std::span<std::byte>> places;  // all queue memory that it was told of

  explicit Hostile(const std::string& name) {
    auto opened = must(DeviceLink::open(name, {}));
    link = std::move(opened.link);
    device = std::move(opened.reply);
    fds = std::move(opened.fds);
    add(device.doorbells);
    pd = must(link->call<message::Handle>(Op::create_pd, message::Empty{})).id;
    make_cq();
    make_region();
    for (uint32_t i = 0; i < kQps; ++i) make_qp(i % 4 == 3 ? QpType::ud : i % 4 == 2 ? QpType::uc : QpType::rc, i == 0);
  }
  std::byte* add(const message::Place& place) {
    std::byte* memory_at = must(link->memory(place));
    places.emplace_back(memory_at, place.bytes);
    return memory_at;
  }
  void make_cq() {
    std::vector<message::Fd> channel_fds;
    const auto channel = must(link->call<message::Handle>(Op::create_channel, message::Empty{}, {}, &channel_fds));
    const auto made = must(link->call<message::CreateCqReply>(Op::create_cq, message::CreateCq{256, channel.id}));
    for (auto& fd : channel_fds) fds.push_back(std::move(fd));
    cq = made.id;
    add(made.header);
    add(made.ring_place);
  }
  void make_region() {
    static constexpr AccessFlags kAll = Side::kAll;
    const int fd = memfd_create("hostile", 0);
    if (ftruncate(fd, kBytes) != 0) die("ftruncate");
    const message::RegisterMemory request{
        .pd = pd, .base = 0, .length = kBytes, .address = 0, .access = kAll, .segments = {{0, 0, kBytes}}};
    key = must(link->call<message::RegisterMemoryReply>(Op::register_memory, request, {{fd}})).key;
  }
  void make_qp(QpType type, bool with_srq) {
    message::CreateQp request{.pd = pd, .send_cq = cq, .recv_cq = cq, .type = type};
    if (with_srq) {
      const auto srq = must(link->call<message::CreateSrqReply>(Op::create_srq, message::CreateSrq{pd, kDepth, kSge}));
      add(srq.place);
      request.srq = srq.id;
    }
    request.cap = {kDepth, kDepth, kSge, kSge, 64};
    const auto made = must(link->call<message::CreateQpReply>(Op::create_qp, request));
    const auto place = queues::QpPlace::at(add(made.place), made.cap, with_srq);
    qps.push_back({made.id, made.qpn, made.engine, type, place});
  }
  void make_ah(const Gid& gid) {
    message::CreateAddressHandle request{.pd = pd};
    request.av = {.dgid = gid};
    ah = must(link->call<message::CreateAddressHandleReply>(Op::create_address_handle, request)).number;
  }
  /// Refusals are no concern of this program.
  void modify(const HostileQp& qp, const QpAttr& attr, QpAttrMask mask) {
    (void)link->call<message::Empty>(Op::modify_qp, message::ModifyQp{.qp = qp.id, .steps = {{mask, attr}}});
  }
  void connect(const HostileQp& qp, const Gid& gid, uint32_t peer) {
    using enum QpAttrBit;
    const QpAttrMask only = QpAttrMask(state);
    modify(qp, {.state = QpState::reset}, only);
    const bool ud = qp.type == QpType::ud, rc = qp.type == QpType::rc;
    modify(qp, {.state = QpState::init, .qkey = 0x11, .access = Side::kAll},
           only | pkey_index | port | (ud ? qkey : access_flags));
    QpAttr attr{.state = QpState::rtr, .rq_psn = 1, .sq_psn = 1, .dest_qpn = peer, .av = {.dgid = gid}};
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
    attr.timeout = 8;
    attr.retry_cnt = 2;
    QpAttrMask to_rtr = only;
    if (!ud) to_rtr |= QpAttrMask(av) | path_mtu | dest_qpn | rq_psn;
    if (rc) to_rtr |= QpAttrMask(max_dest_rd_atomic) | min_rnr_timer;
    modify(qp, attr, to_rtr);
    attr.state = QpState::rts;
    modify(qp, attr, rc ? only | sq_psn | timeout | retry_cnt | rnr_retry | max_rd_atomic : only | sq_psn);
  }
};

struct Attack {
  Hostile& a;
  Hostile& b;
  std::vector<uint32_t> keys;       // its own and those of others
  std::vector<uint64_t> addresses;  // likewise
  std::atomic<bool> stop{false};

  uint32_t any_key(Random& random) const {
    return random() % 8 == 0 ? static_cast<uint32_t>(random()) : keys[random() % keys.size()];
  }
  uint64_t any_address(Random& random) const { return addresses[random() % addresses.size()] + random() % 3 * 4096; }
  static uint32_t any_length(Random& random) {
    constexpr uint32_t kLengths[] = {0, 1, 64, 4096, 65536, 0x7fffffff, 0x80000000, 0xffffffff};
    return kLengths[random() % std::size(kLengths)];
  }
  Sge any_sge(Random& random) const { return {any_address(random), any_length(random), any_key(random)}; }

  /// Every doorbell slot of every engine says one of the client's queue pairs, or a number of nobody's.
  static void ring(Hostile& side, Random& random) {
    std::byte* doorbells = side.places[0].data();
    for (uint32_t engine = 0; engine < side.device.device.engines; ++engine) {
      std::byte* at = queues::DoorbellPlace::at(doorbells, side.device.doorbell_entries, engine);
      auto* slots = reinterpret_cast<std::atomic<uint32_t>*>(at + sizeof(queues::DoorbellHeader));
      for (uint32_t i = 0; i < side.device.doorbell_entries; ++i) {
        const uint64_t pick = random();
        slots[i] = pick % 16 == 0 ? static_cast<uint32_t>(pick >> 32) : side.qps[pick % side.qps.size()].qpn;
      }
    }
    for (const message::Fd& fd : side.fds) {
      const char token[4096] = {};
      [[maybe_unused]] const auto written = write(fd.get(), token, sizeof token);
    }
  }
  static void scribble(Hostile& side, Random& random) {
    const auto place = side.places[random() % side.places.size()];
    const std::size_t length = std::min<std::size_t>(1 + random() % 4096, place.size());
    const std::size_t at = random() % (place.size() - length + 1);
    auto* bytes = reinterpret_cast<volatile unsigned char*>(place.data() + at);
    const bool constant = random() % 4 == 0;
    const auto fill = static_cast<unsigned char>(random() % 2 == 0 ? 0xff : 0);
    for (std::size_t i = 0; i < length; ++i) bytes[i] = constant ? fill : static_cast<unsigned char>(random());
  }

  void post_send(const HostileQp& qp, uint32_t ah, Random& random) const {
    const queues::RingPlace& sq = qp.place.sq;
    for (uint32_t i = 0; i < sq.entries; ++i) {
      queues::SendWqe wqe{};
      constexpr uint8_t kCounts[] = {0, 1, 1, 1, 2, kSge, kSge + 1, 32, 33, 255};
      constexpr uint16_t kInlines[] = {0, 1, 64, 65, 512, 513, 65535};
      wqe.wr_id = random();
      wqe.flags = random() % 2 == 0 ? static_cast<uint32_t>(random() % 16) : static_cast<uint32_t>(random());
      wqe.opcode = static_cast<uint8_t>(random() % 16 == 0 ? random() : random() % 10);
      wqe.num_sge = kCounts[random() % std::size(kCounts)];
      wqe.inline_length = kInlines[random() % std::size(kInlines)];
      wqe.imm_or_key = any_key(random);
      wqe.rkey = any_key(random);
      wqe.remote_addr = any_address(random);
      wqe.atomic = {random(), random()};
      if (qp.type == QpType::ud) {
        const uint64_t pick = random();
        wqe.ud = {pick % 3 == 0 ? static_cast<uint32_t>(pick) : ah,
                  pick % 5 == 0 ? static_cast<uint32_t>(pick >> 32) : b.qps[3].qpn, 0x11, 0};
      }
      std::byte* slot = sq.slot(i);
      std::memcpy(slot, &wqe, sizeof wqe);
      for (std::size_t at = sizeof wqe; at + sizeof(Sge) <= sq.stride; at += sizeof(Sge)) {
        Sge sge = any_sge(random);
        if (random() % 2 == 0) sge.length = 4096;
        std::memcpy(slot + at, &sge, sizeof sge);
      }
    }
    move(sq.header->producer, random);
    if (random() % 4 == 0) sq.header->consumer = static_cast<uint32_t>(random());
  }
  void post_recv(const queues::RingPlace& rq, Random& random) const {
    for (uint32_t i = 0; i < rq.entries; ++i) {
      constexpr uint32_t kCounts[] = {0, 1, 1, 2, kSge, kSge + 1, 33, 0xffffffff};
      const queues::RecvWqe wqe{random(), kCounts[random() % std::size(kCounts)], 0};
      std::memcpy(rq.slot(i), &wqe, sizeof wqe);
      for (std::size_t at = sizeof wqe; at + sizeof(Sge) <= rq.stride; at += sizeof(Sge)) {
        const Sge sge = any_sge(random);
        std::memcpy(rq.slot(i) + at, &sge, sizeof sge);
      }
    }
    move(rq.header->producer, random);
  }
  /// Forwards a little, mostly; backwards, or anywhere.
  static void move(std::atomic<uint32_t>& index, Random& random) {
    constexpr uint32_t kSteps[] = {1, 8, kDepth, 0xffffffff, 0xfffffff0, 0x80000000, 0x7fffffff};
    index += kSteps[random() % std::size(kSteps)];
  }

  void rubbish(uint64_t seed) {
    Random random(seed);
    for (uint64_t i = 0; !stop; ++i) {
      scribble(i % 2 == 0 ? a : b, random);
      if (i % 512 == 0) ring(i % 1024 == 0 ? a : b, random);
    }
  }
  void structured(uint64_t seed) {
    Random random(seed);
    for (uint64_t i = 0; !stop; ++i) {
      Hostile& side = i % 2 == 0 ? a : b;
      const HostileQp& qp = side.qps[random() % side.qps.size()];
      post_send(qp, side.ah, random);
      if (qp.place.rq.entries != 0) post_recv(qp.place.rq, random);
      if (i % 16 < 2) ring(side, random);
    }
  }
  void reconnect() {
    const Gid gid_a = a.device.device.gids[0], gid_b = b.device.device.gids[0];
    while (!stop) {
      for (std::size_t i = 0; i < a.qps.size() && !stop; ++i) {
        a.connect(a.qps[i], gid_b, b.qps[i].qpn);
        b.connect(b.qps[i], gid_a, a.qps[i].qpn);
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) die("usage: hostile FOLDER rubbish|structured SEED SECONDS");
  const bool structured = std::string(argv[2]) == "structured";
  const uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  Hostile a("uroce0"), b("uroce1");
  a.make_ah(b.device.device.gids[0]);
  b.make_ah(a.device.device.gids[0]);
  const auto others = Address::read(std::string(argv[1]) + "/pair");
  if (!others) die("the pair's address is missing");
  Attack attack{a, b, {a.key, b.key, a.key, b.key, others->rkey, 0}, {0, 0, 8, kBytes, others->memory, UINT64_MAX - 8}};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { structured ? attack.structured(seed + i) : attack.rubbish(seed + i); });
  }
  threads.emplace_back([&] { attack.reconnect(); });
  std::puts("attacking"), std::fflush(stdout);
  sleep(static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)));
  attack.stop = true;
  for (std::thread& thread : threads) thread.join();
  const bool alive = a.link->call<message::Handle>(Op::create_pd, message::Empty{}).has_value();
  std::printf("still %s\n", alive ? "served" : "disconnected");
  std::fflush(stdout);
  _exit(0);
}
