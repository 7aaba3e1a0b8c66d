// A recording from somebody who wishes ill. The input's first byte says whether its other bytes are the records, or how
// those of an honest recording are changed: cut, left out, repeated, exchanged, and with other values. The replay ends
// for any input, and reads and writes nothing outside.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "record/frames.h"
#include "record/record_text.h"
#include "record/script_writer.h"
#include "tests/fuzz/input.h"
#include "tests/support/recording.h"
#include "tests/support/test_endpoint.h"

namespace {

using namespace uroce;
using namespace uroce::test;

using Bytes = std::vector<std::byte>;

constexpr std::size_t kRingBytes = std::size_t{64} << 20;
constexpr std::size_t kMostRecords = 4096;

/// Two hosts, of which one is recorded.
class Scene {
 public:
  explicit Scene(Retransmission retransmission, uint64_t lose)
      : lose_(lose), left_(options(1, retransmission, &recording_)), right_(options(2, retransmission, nullptr)) {}

  static EndpointOptions options(uint8_t host, Retransmission retransmission, Recording* recording) {
    EndpointOptions options;
    options.gid = Gid::from_ipv4(0x0a000000u + host);
    options.mac.bytes[5] = host;
    options.seed = host;
    options.recorded = false;
    options.engine.max_qps = 16;
    options.engine.long_windows = 2;
    options.engine.window_packets = 32;
    options.engine.gids = {options.gid};
    options.engine.settings.parking_frames = 8;
    options.engine.settings.max_qp = 16;
    options.engine.settings.retransmission = retransmission;
    if (recording != nullptr) options.engine.tape = recording->tape();
    return options;
  }
  void exchange(int turns = 12) {
    for (; turns > 0; --turns) {
      left_.run(now_);
      right_.run(now_);
      carry(left_, right_);
      carry(right_, left_);
      now_ += Nanos(50'000);
    }
  }
  void connect(TestQp& left, TestQp& right) {
    left.connect({.dest_qpn = right.qpn(), .sq_psn = 100, .rq_psn = 200, .mtu = Mtu::mtu256}, left_.route_to(right_));
    right.connect({.dest_qpn = left.qpn(), .sq_psn = 200, .rq_psn = 100, .mtu = Mtu::mtu256}, right_.route_to(left_));
  }

  Nanos now_{1'000'000};
  uint64_t lose_;
  uint64_t carried_ = 0;
  Recording recording_{std::size_t{4} << 20, 8192};
  TestEndpoint left_;
  TestEndpoint right_;

 private:
  void carry(TestEndpoint& from, TestEndpoint& to) {
    for (const SentFrame& frame : from.sink().take()) {
      if (++carried_ % lose_ == 0) continue;
      from.offer_to_rules(frame.bytes, now_, transport::FrameTakers::sniffers);
      to.offer_to_rules(frame.bytes, now_, transport::FrameTakers::all);
      to.inject(frame.bytes, now_);
    }
  }
};

/// Every operation, in both directions, and then an error.
void play_reliable(Scene& scene, TestSrq* srq) {
  TestQp& here = scene.left_.make_qp({.qpn = 3, .cap = {8, 8, 2, 2, 64}, .srq = srq});
  TestQp& there = scene.right_.make_qp({.qpn = 4, .cap = {8, 8, 2, 2, 64}});
  scene.connect(here, there);
  TestRegion& mine = scene.left_.make_region(4096, kAllAccess);
  TestRegion& theirs = scene.right_.make_region(4096, kAllAccess);
  const auto post = [&](TestQp& from, TestQp& to, TestRegion& source, TestRegion& target, WrOpcode opcode) {
    const bool atomic = opcode == WrOpcode::fetch_add || opcode == WrOpcode::atomic_write;
    const Sge sges[] = {source.sge(0, atomic ? 8 : 300)};
    const Sge into[] = {target.sge(512, 400)};
    to.post_recv({.wr_id = 2, .sges = into});
    from.post_send({.wr_id = 1,
                    .opcode = opcode,
                    .flags = SendFlag::signaled,
                    .sges = sges,
                    .remote_addr = target.va() + 1024,
                    .rkey = target.key()});
    scene.exchange();
  };
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::rdma_write, WrOpcode::rdma_read, WrOpcode::fetch_add}) {
    post(here, there, mine, theirs, opcode);
    post(there, here, theirs, mine, opcode);
  }
  here.set_state(QpState::sqd, true);
  scene.exchange(2);
  here.set_state(QpState::rts);
  theirs.deregister();
  post(here, there, mine, theirs, WrOpcode::rdma_write);
  scene.exchange();
}

void play_datagrams(Scene& scene) {
  TestQp& here = scene.left_.make_qp({.qpn = 3, .type = QpType::ud, .cap = {8, 8, 2, 2, 64}});
  TestQp& there = scene.right_.make_qp({.qpn = 4, .type = QpType::ud, .cap = {8, 8, 2, 2, 64}});
  scene.connect(here, there);
  TestRegion& region = scene.left_.make_region(4096, kAllAccess);
  const Gid group = Gid::from_ipv4(0xe0000107);
  static_cast<void>(scene.left_.engine().groups().join(group, 3));
  wire::Route to_group = scene.left_.route_to(scene.right_);
  to_group.dgid = group;
  for (const wire::Route& route : {scene.left_.route_to(scene.right_), to_group}) {
    const Sge sges[] = {region.sge(0, 100)};
    const Sge into[] = {region.sge(1024, 1000)};
    here.post_recv({.wr_id = 2, .sges = into});
    here.post_send({.wr_id = 1,
                    .opcode = WrOpcode::send,
                    .flags = SendFlag::signaled,
                    .sges = sges,
                    .ah = scene.left_.make_ah(route),
                    .remote_qpn = 4,
                    .remote_qkey = ConnectOptions{}.qkey});
    scene.exchange();
  }
}

void play_raw(Scene& scene) {
  TestQp& here = scene.left_.make_qp({.qpn = 3, .type = QpType::raw_packet, .cap = {8, 8, 2, 2, 64}});
  here.to_init({});
  here.to_rtr({}, {});
  here.to_rts({});
  TestRegion& region = scene.left_.make_region(4096, kAllAccess);
  const std::array<std::byte, 14> head{std::byte{2}, {}, {}, {}, {}, std::byte{2},    std::byte{2},
                                       {},           {}, {}, {}, {}, std::byte{0x88}, std::byte{0xb5}};
  std::ranges::copy(head, region.bytes().begin());
  auto table = std::make_shared<transport::IndirectionTable>();
  table->qpns = {3, 3};
  scene.left_.engine().flows().add({.id = 1, .table = table, .type = FlowType::all_default});
  scene.left_.engine().flows().add({.id = 2, .qpn = 3, .type = FlowType::sniffer});
  const Sge sges[] = {region.sge(0, 100)};
  const Sge into[] = {region.sge(1024, 1000)};
  for (int i = 0; i < 3; ++i) {
    here.post_recv({.wr_id = 2, .sges = into});
    here.post_send({.wr_id = 1, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = sges});
    scene.left_.offer_to_rules(region.bytes().first(100), scene.now_, transport::FrameTakers::all);
    scene.exchange(2);
  }
}

void play_xrc(Scene& scene) {
  TestCq& cq = scene.left_.make_cq();
  TestSrq& srq = scene.left_.make_xrc_srq(1, cq, 8);
  TestQp& here = scene.left_.make_qp({.qpn = 3, .type = QpType::xrc_target, .srq = &srq, .xrc_domain = 1});
  TestQp& there = scene.right_.make_qp(
      {.qpn = 4, .type = QpType::xrc_initiator, .cap = {8, 8, 2, 2, 64}, .remote_srqn = srq.srq().id});
  scene.connect(here, there);
  TestRegion& mine = scene.left_.make_region(4096, kAllAccess);
  TestRegion& theirs = scene.right_.make_region(4096, kAllAccess);
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::rdma_write}) {
    const Sge into[] = {mine.sge(512, 1000)};
    srq.post_recv({.wr_id = 2, .sges = into});
    const Sge sges[] = {theirs.sge(0, 700)};
    there.post_send({.wr_id = 1, .opcode = opcode, .sges = sges, .remote_addr = mine.va() + 1024, .rkey = mine.key()});
    scene.exchange();
  }
  scene.left_.engine().detach_srq(srq.srq());
  scene.exchange(2);
}

/// The records of honest recordings, one by one with their heads.
struct Honest {
  std::vector<Bytes> records;

  /// `from_the_middle`: from a keyframe on that has queue pairs.
  Honest(Retransmission retransmission, uint64_t lose, bool from_the_middle, const std::function<void(Scene&)>& play) {
    Scene scene(retransmission, lose);
    play(scene);
    const record::Report report = scene.recording_.replay();
    require(!report.divergence, report.divergence ? report.divergence->c_str() : "");
    const record::Collected all = scene.recording_.collected();
    std::span<const std::byte> left = all.records;
    if (from_the_middle) left = left.subspan(all.keyframes[all.keyframes.size() / 2]);
    while (!left.empty() && records.size() < kMostRecords) {
      record::Head head;
      std::memcpy(&head, left.data(), sizeof head);
      const std::size_t bytes = sizeof head + record::padded(head.bytes);
      records.emplace_back(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(bytes));
      left = left.subspan(bytes);
    }
  }
};

const std::vector<Honest>& recordings() {
  static const std::vector<Honest> all = [] {
    std::vector<Honest> made;
    for (const bool middle : {false, true}) {
      made.emplace_back(Retransmission::selective, 9, middle, [](Scene& scene) { play_reliable(scene, nullptr); });
      made.emplace_back(Retransmission::go_back_n, 13, middle,
                        [](Scene& scene) { play_reliable(scene, &scene.left_.make_srq(8, 2)); });
      made.emplace_back(Retransmission::automatic, 1000, middle, play_datagrams);
      made.emplace_back(Retransmission::automatic, 1000, middle, play_raw);
      made.emplace_back(Retransmission::automatic, 11, middle, play_xrc);
    }
    return made;
  }();
  return all;
}

/// A value that somebody who changes a recording would try.
uint64_t chosen_value(uint8_t which) {
  static constexpr uint64_t kValues[] = {0xffffffff,
                                         0x7fffffff,
                                         0x80000000,
                                         0x10000,
                                         0x1000000,
                                         0x100000,
                                         uint64_t{1} << 62,
                                         ~uint64_t{0},
                                         0xffffff,
                                         0x7fff,
                                         1024,
                                         1,
                                         0,
                                         255,
                                         3,
                                         4097};
  return kValues[which % std::size(kValues)];
}

void change_value(Input& in, Bytes& record) {
  const std::size_t at = in.take<uint16_t>() % record.size();
  const auto how = in.take<uint8_t>();
  const std::size_t n = std::min<std::size_t>(std::size_t{1} << (how & 3), record.size() - at);
  uint64_t value = 0;
  if ((how & 4) != 0) {
    value = chosen_value(how >> 4);
  } else {
    std::memcpy(&value, record.data() + at, n);
    value += (how & 8) != 0 ? static_cast<uint64_t>(in.take<int8_t>()) : uint64_t{1} << (how >> 4) * 4;
  }
  std::memcpy(record.data() + at, &value, n);
}

void change(Input& in, std::vector<Bytes>& records) {
  const auto any = [&in, &records] { return in.take<uint16_t>() % records.size(); };
  const auto how = in.take<uint8_t>();
  const auto from = records.begin() + static_cast<std::ptrdiff_t>(any());
  switch (how % 16) {
    case 0: records.erase(from, std::min(records.end(), from + 1 + (how >> 6))); break;
    case 1: records.insert(from, Bytes(records[any()])); break;
    case 2: std::swap(*from, records[any()]); break;
    case 3: {
      // The record comes from another recording.
      const auto& other = recordings()[how / 16 % recordings().size()].records;
      records.insert(from, other[in.take<uint16_t>() % other.size()]);
      break;
    }
    case 4:
      if (how < 64) records.erase(from, records.end());
      break;
    default: change_value(in, *from); break;
  }
  if (records.empty()) records.push_back(Bytes(sizeof(record::Head)));
}

/// Describes records as `uroce record dump` does.
void describe(const Bytes& records) {
  try {
    record::Peers peers;
    for (record::Reader in(records); !in.at_end();) {
      const record::Record next = in.take();
      static_cast<void>(record::describe(next));
      static_cast<void>(record::time_of(next, Nanos(0)));
      static_cast<void>(record::frames_of(next));
      peers.note(next);
    }
  } catch (const record::Stop&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Input in({data, size});
  const auto first = in.take<uint8_t>();
  Bytes played;
  if ((first & 0x80) != 0) {
    if ((first & 1) != 0) played = recordings().front().records.front();
    played.reserve(played.size() + size);
    while (!in.empty()) played.push_back(in.take<std::byte>());
  } else {
    std::vector<Bytes> records = recordings()[first % recordings().size()].records;
    for (int changes = 0; !in.empty() && changes < 32; ++changes) change(in, records);
    for (const Bytes& record : records) played.insert(played.end(), record.begin(), record.end());
    if ((first & 0x40) != 0) played.resize(played.size() - std::min(played.size(), std::size_t{first} & 0x3f));
  }
  describe(played);
  if ((first & 0x20) != 0) {
    // Each recording has a queue pair of this number.
    static_cast<void>(record::write_script(played, 3, "fuzz", 0, kRingBytes));
  } else {
    record::Replayer(played, nullptr, kRingBytes).run();
  }
  return 0;
}
