// The daemon's dispatch against two hostile programs of two users on one device, beside a third that does nothing. The
// input is a program: calls with any descriptors, files that are truncated, punched and written between calls, queue
// memory that changes between polls of the engine. For any input each call answers, the bystander keeps what it has,
// and once the programs are gone their users use nothing.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "queues/layout.h"
#include "queues/place.h"
#include "service/memory_operations.h"
#include "service/operation_table.h"
#include "tests/fuzz/hostile_program.h"
#include "tests/fuzz/input.h"
#include "world.h"

namespace {

using namespace uroce;
using message::Fd;
using message::Op;
using service::Resource;
using test::Input;
using Program = test::HostileProgram;
using test::require;

constexpr uint64_t kPage = 4096;
constexpr std::size_t kMaxFiles = 8;
constexpr std::array<uint32_t, 8> kCounts{1, 4, 0, 16, 64, 4096, 1u << 20, UINT32_MAX};
const AccessFlags kAll = Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

Fd memory_file(uint64_t bytes, unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING) {
  Fd fd(memfd_create("fuzz", flags));
  require(fd && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "no memory file");
  return fd;
}

class Session {
 public:
  explicit Session(std::span<const uint8_t> bytes) : in_(bytes) {
    GTEST_FLAG_SET(throw_on_failure, true);  // of the world's own checks
    world_.add({.settings = {.max_qp = 32, .max_mr = 64, .parking_frames = 16}});
    view_.all = {world_.device(0)};
    for (uint32_t n = 0; n < programs_.size(); ++n) start(n);
    bystander();
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 200; ++steps) {
      which_ = in_.take<uint8_t>() & 1u;
      step(*programs_[which_]);
      for (uint32_t n = 0; n < 2; ++n) {
        retire_broken_regions(programs_[n]->state());
        if (programs_[n]->ended || queues_are_broken(programs_[n]->state())) start(n);
      }
    }
    check_bystander();
    end();
  }

 private:
  static service::Peer peer(uint32_t n) {
    return {.pid = 100 + static_cast<int32_t>(n), .uid = 1000 + n, .privileged = false, .locked_bytes = 4 << 20};
  }
  void start(uint32_t n) {
    programs_[n].reset();
    programs_[n] = std::make_unique<Program>(view_, ++clients_, peer(n), users_.of(peer(n)));
    if (n < 2 && (in_.take<uint8_t>() & 15) == 0) return;  // a program that does not greet
    programs_[n]->must<message::HelloReply>(Op::hello, message::Hello{.queue_abi = queues::kAbiVersion});
    open(*programs_[n]);
  }
  void open(Program& program) {
    const auto body = program.ask(Op::open_device, message::OpenDevice{"uroce0"});
    message::OpenDeviceReply answer;
    if (body && message::decode(*body, answer)) program.device = answer;
  }

  /// The third program: it owns one of each, and its memory holds a pattern.
  void bystander() {
    Program& program = *programs_[2];
    const auto pd = program.must<message::Handle>(Op::create_pd, message::Empty{}).id;
    const auto cq = program.must<message::CreateCqReply>(Op::create_cq, message::CreateCq{.entries = 16}).id;
    std::array<Fd, 1> fds{memory_file(kPage)};
    const std::vector<std::byte> pattern(kPage, std::byte{0x5a});
    require(pwrite(fds[0].get(), pattern.data(), kPage, 0) == static_cast<ssize_t>(kPage), "no pattern");
    program.must<message::RegisterMemoryReply>(Op::register_memory, region(pd, kPage), fds);
    bystander_file_ = std::move(fds[0]);
    bystander_qp_ =
        program
            .must<message::CreateQpReply>(
                Op::create_qp, message::CreateQp{.pd = pd, .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}})
            .id;
  }
  void check_bystander() {
    Program& program = *programs_[2];
    std::vector<std::byte> memory(kPage);
    require(pread(bystander_file_.get(), memory.data(), kPage, 0) == static_cast<ssize_t>(kPage), "no memory");
    for (const std::byte b : memory) require(b == std::byte{0x5a}, "another user's memory changed");
    const auto attr = program.must<QpAttr>(Op::query_qp, message::Handle{bystander_qp_});
    require(attr.state == QpState::reset, "another user's queue pair changed");
    require(program.state().regions.size() == 1 && program.state().qps.size() == 1, "another user's objects changed");
  }

  static message::RegisterMemory region(uint32_t pd, uint64_t bytes) {
    return {.pd = pd,
            .base = 0x10000,
            .length = bytes,
            .address = 0x10000,
            .access = kAll,
            .segments = {{.fd = 0, .offset = 0, .length = bytes}}};
  }
  uint32_t handle() { return in_.take<uint8_t>() % 6u; }
  uint32_t count() { return kCounts[in_.take<uint8_t>() % kCounts.size()]; }
  uint64_t odd_bytes() {
    const auto pages = uint64_t{in_.take<uint8_t>() & 31u} * kPage;
    return (in_.take<uint8_t>() & 7) != 0 ? pages : pages + in_.take<uint64_t>();
  }

  Fd descriptor() {
    const auto kind = in_.take<uint8_t>();
    switch (kind % 10) {
      case 0: return Fd(open_path("/dev/zero", O_RDWR));
      case 1: return Fd(open_path("/", O_RDONLY | O_DIRECTORY));
      case 2: {
        int ends[2];
        require(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
        close(ends[0]);
        return Fd(ends[1]);
      }
      case 3: return memory_file(0);
      case 4: return memory_file(odd_bytes() % (64 * kPage));
      case 5: {
        Fd fd = memory_file(16 * kPage);
        fcntl(fd.get(), F_ADD_SEALS, (kind & 16) != 0 ? F_SEAL_WRITE : F_SEAL_SHRINK | F_SEAL_GROW);
        return fd;
      }
      case 6: {
        const Fd fd = memory_file(16 * kPage);
        return Fd(open_path("/proc/self/fd/" + std::to_string(fd.get()), O_RDONLY));
      }
      default: {
        if (files_.size() >= kMaxFiles) files_.erase(files_.begin());
        files_.push_back(memory_file((1 + (kind & 15u)) * kPage));
        return Fd(fcntl(files_.back().get(), F_DUPFD_CLOEXEC, 0));
      }
    }
  }
  static int open_path(const std::string& path, int flags) { return ::open(path.c_str(), flags | O_CLOEXEC); }

  message::RegisterMemory any_region() {
    message::RegisterMemory wanted = region(handle(), odd_bytes());
    const auto how = in_.take<uint8_t>();
    if ((how & 1) != 0) wanted.address += in_.take<uint16_t>();
    if ((how & 2) != 0) wanted.access = AccessFlags::from_bits(in_.take<uint32_t>());
    if ((how & 4) != 0) wanted.base = in_.take<uint64_t>();
    if ((how & 8) != 0) wanted.length = in_.take<uint64_t>();
    if ((how & 0x30) == 0) {
      wanted.segments.clear();
      for (uint32_t n = in_.take<uint8_t>() & 7u; n > 0; --n) {
        wanted.segments.push_back({.fd = in_.take<uint8_t>() & 3u, .offset = odd_bytes(), .length = odd_bytes()});
      }
    }
    return wanted;
  }
  void register_memory(Program& program) {
    std::vector<Fd> fds;
    for (uint32_t n = in_.take<uint8_t>() & 3u; n > 0; --n) fds.push_back(descriptor());
    const auto wanted = any_region();
    if ((in_.take<uint8_t>() & 3) == 0) {
      program.ask(Op::reregister_memory, message::ReregisterMemory{handle(), wanted}, fds);
      return;
    }
    const auto body = program.ask(Op::register_memory, wanted, fds);
    message::RegisterMemoryReply answer;
    if (body && message::decode(*body, answer)) program.regions.emplace_back(answer.key, wanted.base);
  }

  void create_qp(Program& program) {
    message::CreateQp wanted{.pd = handle(), .send_cq = handle(), .recv_cq = handle(), .cap = {16, 16, 2, 2, 32}};
    const auto how = in_.take<uint8_t>();
    wanted.type = static_cast<QpType>(2 + (how & 3));
    if ((how & 0x30) == 0) wanted.cap = {count(), count(), in_.take<uint8_t>(), in_.take<uint8_t>(), count()};
    if ((how & 0x40) != 0) wanted.srq = handle();
    if ((how & 0x80) != 0) wanted.engine = in_.take<int8_t>();
    const auto body = program.ask(Op::create_qp, wanted);
    message::CreateQpReply answer;
    if (body && message::decode(*body, answer))
      program.qps.push_back({answer.qpn, answer.cap, wanted.srq != 0, answer.place});
  }

  /// From RESET to RTS, towards `peer`.
  static message::ModifyQp connecting(uint32_t qp, uint32_t peer) {
    using B = QpAttrBit;
    QpAttr attr{.dest_qpn = peer,
                .access = kAll,
                .max_rd_atomic = 4,
                .max_dest_rd_atomic = 4,
                .min_rnr_timer = 1,
                .timeout = 10,
                .retry_cnt = 2,
                .rnr_retry = 2};
    attr.av.dgid = test::World::gid(0);
    message::ModifyQp out{.qp = qp};
    const auto add = [&](QpState state, QpAttrMask mask) {
      attr.state = state;
      out.steps.push_back({mask, attr});
    };
    add(QpState::init, B::state | B::pkey_index | B::port | B::access_flags);
    add(QpState::rtr,
        B::state | B::av | B::path_mtu | B::dest_qpn | B::rq_psn | B::max_dest_rd_atomic | B::min_rnr_timer);
    add(QpState::rts, B::state | B::timeout | B::retry_cnt | B::rnr_retry | B::sq_psn | B::max_rd_atomic);
    return out;
  }
  void modify_qp(Program& program) {
    const auto& peers = programs_[in_.take<uint8_t>() & 1u]->qps;
    const uint32_t peer = peers.empty() ? in_.take<uint32_t>() : peers[in_.take<uint8_t>() % peers.size()].qpn;
    message::ModifyQp wanted = connecting(handle(), peer);
    if ((in_.take<uint8_t>() & 3) == 0) {
      auto& odd = wanted.steps[in_.take<uint8_t>() % 3u];
      odd.mask = QpAttrMask::from_bits(in_.take<uint32_t>());
      odd.attr.state = static_cast<QpState>(in_.take<uint8_t>() % 9);
      odd.attr.path_mtu = static_cast<Mtu>(in_.take<uint16_t>());
      odd.attr.timeout = in_.take<uint8_t>();
    }
    program.ask(Op::modify_qp, wanted);
  }

  /// A work request in a program's queue memory, with its doorbell.
  void post(Program& program) {
    if (program.qps.empty() || !program.device) return;
    const auto& qp = program.qps[in_.take<uint8_t>() % program.qps.size()];
    std::byte* queue = program.at(qp.place);
    std::byte* bells = program.at(program.device->doorbells);
    require(queue != nullptr && bells != nullptr, "a queue pair without its queues");
    const auto [lkey, from] = aim(program);
    const auto [rkey, to] = aim(*programs_[in_.take<uint8_t>() & 1u]);
    const auto place = queues::QpPlace::at(queue, qp.cap, qp.with_srq);
    const Sge sge{from + (in_.take<uint8_t>() & 1u) * in_.take<uint16_t>(), in_.take<uint16_t>(), lkey};
    const bool receive = (in_.take<uint8_t>() & 3) == 0 && !qp.with_srq;
    const queues::RingPlace& ring = receive ? place.rq : place.sq;
    const uint32_t index = ring.header->producer.load();
    std::byte* slot = ring.slot(index);
    if (receive) {
      const queues::RecvWqe wqe{.wr_id = 2, .num_sge = in_.take<uint8_t>() & 1u, .reserved = 0};
      put(slot, ring.stride, wqe, sge);
    } else {
      queues::SendWqe wqe{};
      wqe.flags = in_.take<uint8_t>();
      wqe.opcode = static_cast<uint8_t>(in_.take<uint8_t>() % 14);
      wqe.num_sge = static_cast<uint8_t>(in_.take<uint8_t>() & 1);
      wqe.imm_or_key = wqe.rkey = rkey;
      wqe.remote_addr = to + (in_.take<uint8_t>() & 1u) * in_.take<uint16_t>();
      wqe.atomic = {.compare_add = 0, .swap = 1};
      put(slot, ring.stride, wqe, sge);
    }
    ring.header->producer.store(index + 1 + ((in_.take<uint8_t>() & 31) == 0 ? in_.take<uint32_t>() : 0));
    queues::DoorbellPoster(bells, program.device->doorbell_entries).ring(*place.doorbell, qp.qpn);
  }
  template <class Wqe>
  static void put(std::byte* slot, uint32_t stride, const Wqe& wqe, const Sge& sge) {
    std::memcpy(slot, &wqe, sizeof wqe);
    if (sizeof wqe + sizeof sge <= stride) std::memcpy(slot + sizeof wqe, &sge, sizeof sge);
  }
  /// A key and an address, of the program's regions if it has any.
  std::pair<uint32_t, uint64_t> aim(const Program& owner) {
    if (owner.regions.empty()) return {in_.take<uint32_t>(), 0};
    return owner.regions[in_.take<uint8_t>() % owner.regions.size()];
  }

  /// Words anywhere in a program's queue memory.
  void scribble(const Program& program) {
    if (program.chunks.empty()) return;
    const test::Mapped& chunk = program.chunks[in_.take<uint8_t>() % program.chunks.size()];
    for (uint32_t n = in_.take<uint8_t>() & 7u; n > 0; --n) {
      const auto word = in_.take<uint32_t>();
      const uint64_t at = uint64_t{in_.take<uint16_t>()} * sizeof word % chunk.bytes;
      std::memcpy(chunk.data + at, &word, sizeof word);
    }
  }
  /// Pages go: those of a file that the daemon may have mapped, or of queue memory.
  void take_back(const Program& program) {
    const auto how = in_.take<uint8_t>();
    const auto page = static_cast<off_t>(in_.take<uint8_t>() & 31u) * static_cast<off_t>(kPage);
    const auto last = static_cast<off_t>(kPage);
    if ((how & 7) == 0 && !program.chunks.empty()) {
      const test::Mapped& chunk = program.chunks[how % program.chunks.size()];
      madvise(chunk.data + static_cast<uint64_t>(page) % chunk.bytes, kPage, MADV_REMOVE);
      return;
    }
    if (files_.empty()) return;
    const Fd& file = files_[how % files_.size()];
    if ((how & 0x30) == 0) require(ftruncate(file.get(), page) == 0, "a file that cannot be truncated");
    if ((how & 0x30) == 0x10) fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, last);
    if ((how & 0x30) == 0x20) [[maybe_unused]]
      const auto written = pwrite(file.get(), &how, 1, page);
  }

  /// Any operation with any bytes.
  void say_anything(Program& program) {
    std::vector<std::byte> body(in_.below(96));
    in_.fill(body);
    std::vector<Fd> fds;
    for (uint32_t n = in_.take<uint8_t>() & 1u; n > 0; --n) fds.push_back(descriptor());
    const auto op = in_.take<uint8_t>();
    program.call(static_cast<Op>(op < 96 ? op : in_.take<uint16_t>()), body, fds);
  }
  /// A registration in several messages, of which some may lack, or lie.
  void register_in_parts(Program& program) {
    const auto how = in_.take<uint8_t>();
    const uint32_t segments = 1 + (how & 3u);
    auto wanted = region(handle(), segments * kPage);
    wanted.prepared = true;
    wanted.segments.clear();
    program.ask(Op::prepare_memory,
                message::PrepareMemory{.length = (how & 0x70) == 0x10 ? in_.take<uint64_t>() : wanted.length,
                                       .address = wanted.address + ((how & 0x70) == 0x20 ? in_.take<uint16_t>() : 0u),
                                       .writable = (how & 0x70) != 0x30,
                                       .segments = (how & 0x70) == 0x40 ? in_.take<uint32_t>() : segments});
    for (uint32_t n = 0; n < segments; ++n) {
      std::array<Fd, 1> fds{(how & 0x80) != 0 ? descriptor() : memory_file(2 * kPage)};
      message::Segment part{.fd = 0, .offset = 0, .length = kPage};
      if ((how & 0x70) == 0x50) part = {in_.take<uint8_t>() & 1u, odd_bytes(), odd_bytes()};
      program.ask(Op::add_segments, message::AddSegments{{part}}, fds);
      if ((how & 0x70) == 0x60) break;
    }
    if ((how & 0x70) == 0x70) return;  // the next one, or the end of the program, ends it
    const auto body = program.ask(Op::register_memory, wanted);
    message::RegisterMemoryReply answer;
    if (body && message::decode(*body, answer)) program.regions.emplace_back(answer.key, wanted.base);
  }
  void make(Program& program) {
    switch (in_.take<uint8_t>() % 14) {
      case 0: program.ask(Op::create_pd, message::Empty{}); break;
      case 1: program.ask(Op::create_channel, message::Empty{}); break;
      case 2: program.ask(Op::create_cq, message::CreateCq{count(), handle()}); break;
      case 3: program.ask(Op::resize_cq, message::ResizeCq{handle(), count()}); break;
      case 4: program.ask(Op::create_srq, message::CreateSrq{handle(), count(), in_.take<uint8_t>()}); break;
      case 5: program.ask(Op::create_window, message::CreateWindow{handle(), WindowType{in_.take<uint8_t>()}}); break;
      case 6: {
        message::CreateAddressHandle wanted{.pd = handle()};
        wanted.av.dgid = test::World::gid(in_.take<uint8_t>() & 1u);
        wanted.av.sgid_index = in_.take<uint8_t>();
        program.ask(Op::create_address_handle, wanted);
        break;
      }
      case 7: {
        message::CreateFlow wanted{.hash = {.fields = RxHashFields::from_bits(in_.take<uint8_t>())}};
        for (uint32_t left = 1u << in_.take<uint8_t>() % 4u; left > 0; --left) wanted.qps.push_back(handle());
        wanted.rule.type = FlowType{in_.take<uint8_t>()};
        wanted.rule.mask.eth_type = in_.take<uint16_t>();
        wanted.rule.layers = FlowLayers::from_bits(in_.take<uint8_t>());
        program.ask(Op::create_flow, wanted);
        break;
      }
      case 8: program.ask(Op::create_null_region, message::Handle{handle()}); break;
      case 9:
        program.ask(Op::moderate_cq, message::ModerateCq{handle(), in_.take<uint8_t>(), in_.take<uint8_t>()});
        break;
      case 10: program.ask(Op::flow_counters, message::Handle{handle()}); break;
      case 11: register_in_parts(program); break;
      case 12: program.ask(Op::abandon_memory, message::Empty{}); break;
      default: {
        message::Multicast wanted{.qp = handle()};
        wanted.gid = Gid::from_ipv4(0xe1000000 + in_.take<uint8_t>() % 4u).bytes;
        program.ask((in_.take<uint8_t>() & 1) != 0 ? Op::attach_multicast : Op::detach_multicast, wanted);
      }
    }
  }

  void step(Program& program) {
    switch (in_.take<uint8_t>() % 16) {
      case 0:
      case 1: make(program); break;
      case 2:
      case 3: register_memory(program); break;
      case 4: create_qp(program); break;
      case 5: modify_qp(program); break;
      case 6:
        program.ask(Op::destroy, message::Destroy{static_cast<message::Kind>(in_.take<uint8_t>() % 10), handle()});
        break;
      case 7: say_anything(program); break;
      case 8: scribble(program); break;
      case 9: take_back(program); break;
      case 10: start(which_); break;  // it dies, and another comes
      case 11: program.ask(static_cast<Op>(15 + in_.take<uint8_t>() % 12), message::Handle{handle()}); break;
      case 12: prepare(); break;
      default: post(program); break;
    }
    for (uint32_t polls = in_.take<uint8_t>() & 15u; polls > 0; --polls) world_.poll();
  }
  /// Both programs anew and connected, with a region each, so that an input need not find the way.
  void prepare() {
    std::array<uint32_t, 2> qps{};
    files_.clear();
    for (uint32_t n = 0; n < 2; ++n) {
      start(n);
      Program& program = *programs_[n];
      if (!program.device) return;
      const auto pd = program.must<message::Handle>(Op::create_pd, message::Empty{}).id;
      const auto cq = program.must<message::CreateCqReply>(Op::create_cq, message::CreateCq{.entries = 16}).id;
      const message::CreateQp wanted{.pd = pd, .send_cq = cq, .recv_cq = cq, .cap = {16, 16, 2, 2, 32}};
      const auto qp = program.must<message::CreateQpReply>(Op::create_qp, wanted);
      program.qps.push_back({qp.qpn, qp.cap, false, qp.place});
      qps[n] = qp.id;
      files_.push_back(memory_file(32 * kPage));
      std::array<Fd, 1> fds{Fd(fcntl(files_.back().get(), F_DUPFD_CLOEXEC, 0))};
      const auto made = program.must<message::RegisterMemoryReply>(Op::register_memory, region(pd, 32 * kPage), fds);
      program.regions.emplace_back(made.key, 0x10000);
    }
    for (uint32_t n = 0; n < 2; ++n) {
      programs_[n]->must<message::Empty>(Op::modify_qp, connecting(qps[n], programs_[1 - n]->qps[0].qpn));
    }
  }

  void end() {
    for (auto& program : programs_) program.reset();
    for (uint32_t n = 0; n < programs_.size(); ++n) {
      for (const message::Budget& budget : users_.of(peer(n))->row().budgets) {
        require(budget.used == 0, ("left in use: " + budget.resource).c_str());
      }
    }
    world_.stop();
  }

  Input in_;
  test::World world_;
  test::ScriptedView view_;
  const service::PerResource<uint64_t> all_ = test::small_capacity(64);
  service::Users users_{{.shared = all_, .whole = all_}, {}, [](uint32_t, const std::string&) {}};
  std::vector<Fd> files_;
  Fd bystander_file_;
  uint32_t bystander_qp_ = 0;
  uint32_t clients_ = 0;
  uint32_t which_ = 0;
  std::array<std::unique_ptr<Program>, 3> programs_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Session({data, size}).run();
  return 0;
}
