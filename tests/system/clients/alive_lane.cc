#include "alive_lane.h"

#include <algorithm>
#include <cstring>

namespace alive {

namespace {

constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kHead = 24;  // of the shared part: three counters

uint32_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(value >> 32);
}

ibv_qp_type type_of(Kind kind) {
  switch (kind) {
    case Kind::xrc: return IBV_QPT_XRC_SEND;
    case Kind::uc: return IBV_QPT_UC;
    case Kind::ud: return IBV_QPT_UD;
    default: return IBV_QPT_RC;
  }
}

void move_to_init(ibv_qp* qp, Kind kind) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  attr.qp_access_flags = kAccess & ~(kind == Kind::uc ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0);
  const int third = kind == Kind::ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | third), "modify to INIT");
}

ibv_ah_attr to_peer(const Host& host) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.grh.dgid = host.remote_gid;
  attr.grh.sgid_index = host.gid_index;
  attr.grh.hop_limit = 64;
  attr.port_num = 1;
  return attr;
}

void move_to_rtr(ibv_qp* qp, const Host& host, Kind kind, uint32_t qpn, uint32_t psn) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = host.mtu;
  attr.dest_qp_num = qpn;
  attr.rq_psn = psn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr = to_peer(host);
  int mask = IBV_QP_STATE;
  if (kind != Kind::ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (kind <= Kind::xrc) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (qp->qp_type == IBV_QPT_XRC_SEND) mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  must(ibv_modify_qp(qp, &attr, mask), "modify to RTR");
}

void move_to_rts(ibv_qp* qp, const Host& host, Kind kind, uint32_t psn) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn;
  attr.timeout = host.timeout;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (kind <= Kind::xrc) mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (qp->qp_type == IBV_QPT_XRC_RECV) mask &= ~(IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  must(ibv_modify_qp(qp, &attr, mask), "modify to RTS");
}

ibv_srq* make_xrc_srq(const Host& host) {
  ibv_srq_init_attr_ex init{};
  init.attr = {.max_wr = 2 * Lane::kReceives, .max_sge = 1, .srq_limit = 0};
  init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
  init.srq_type = IBV_SRQT_XRC;
  init.xrcd = host.xrcd;
  init.cq = host.cq;
  init.pd = host.pd;
  return must(ibv_create_srq_ex(host.context, &init), "ibv_create_srq_ex");
}

ibv_qp* make_qp(const Host& host, Kind kind, uint32_t receives) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = type_of(kind);
  init.send_cq = host.cq;
  init.recv_cq = kind == Kind::xrc ? nullptr : host.cq;
  init.srq = kind == Kind::srq ? host.srq : nullptr;
  init.cap = {.max_send_wr = 2 * Lane::kDepth,
              .max_recv_wr = kind == Kind::xrc || kind == Kind::srq ? 0 : 2 * receives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = host.pd;
  return must(ibv_create_qp_ex(host.context, &init), "ibv_create_qp_ex");
}

ibv_qp* make_xrc_target(const Host& host) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = host.xrcd;
  return must(ibv_create_qp_ex(host.context, &init), "ibv_create_qp_ex (XRC target)");
}

}  // namespace

Lane::Lane(Host& host, Kind kind, uint32_t number, bool first_side)
    : host_(host), kind_(kind), number_(number), first_side_(first_side), memory_(shared_at() + kShared) {
  mr_ = must(ibv_reg_mr(host.pd, memory_.data(), memory_.size(), kAccess), "ibv_reg_mr");
  if (kind == Kind::xrc) {
    srq_ = make_xrc_srq(host);
    target_ = make_xrc_target(host);
    move_to_init(target_, kind);
  }
  qp_ = make_qp(host, kind, receives());
  move_to_init(qp_, kind);
  for (std::size_t i = kHead; i < kShared; ++i) memory_[shared_at() + i] = byte_of(0, true, i);
  for (uint32_t slot = 0; slot < receives(); ++slot) post_receive(slot);
}

LaneAddress Lane::address() const {
  LaneAddress out;
  out.qpn = qp_->qp_num;
  out.psn = mix(number_ * 2 + (first_side_ ? 1 : 0)) & 0xffffff;
  out.rkey = mr_->rkey;
  out.memory = reinterpret_cast<uint64_t>(memory_.data());
  if (target_ != nullptr) {
    out.target_qpn = target_->qp_num;
    must(ibv_get_srq_num(srq_, &out.srqn), "ibv_get_srq_num");
  }
  return out;
}

void Lane::connect(const LaneAddress& remote) {
  remote_ = remote;
  const uint32_t own_psn = address().psn;
  if (target_ != nullptr) {
    move_to_rtr(target_, host_, kind_, remote.qpn, remote.psn);
    move_to_rts(target_, host_, kind_, own_psn);
  }
  move_to_rtr(qp_, host_, kind_, target_ != nullptr ? remote.target_qpn : remote.qpn, remote.psn);
  move_to_rts(qp_, host_, kind_, own_psn);
  if (kind_ == Kind::ud) {
    ibv_ah_attr attr = to_peer(host_);
    ah_ = must(ibv_create_ah(host_.pd, &attr), "ibv_create_ah");
  }
}

void Lane::fail(const std::string& what) const {
  static const char* const kNames[] = {"RC", "SRQ", "XRC", "UC", "UD"};
  die(std::string(kNames[static_cast<uint32_t>(kind_)]) + " lane " + std::to_string(number_) + ": " + what);
}

uint32_t Lane::length_of(uint64_t message, bool ours) const {
  const uint32_t most = kind_ == Kind::ud ? 1000 : kMost;
  return 16 + mix(message * 4 + number_ * 77 + (ours == first_side_ ? 1 : 2)) % (most - 16);
}

uint8_t Lane::byte_of(uint64_t message, bool ours, std::size_t at) const {
  return static_cast<uint8_t>(mix(message * 8 + number_) + at * 7 + (at >> 8) + (ours == first_side_ ? 1 : 0));
}

void Lane::fill(uint8_t* to, uint64_t message, uint32_t length) {
  std::memcpy(to, &message, sizeof message);
  const uint8_t first = byte_of(message, true, 0);
  for (std::size_t i = sizeof message; i < length; ++i) to[i] = static_cast<uint8_t>(first + i * 7 + (i >> 8));
}

void Lane::check(const uint8_t* bytes, uint64_t message, uint32_t length, const char* what) const {
  if (length != length_of(message, false)) {
    fail(std::string(what) + " " + std::to_string(message) + " has " + std::to_string(length) + " bytes");
  }
  const uint8_t first = byte_of(message, false, 0);
  for (std::size_t i = sizeof message; i < length; ++i) {
    if (bytes[i] == static_cast<uint8_t>(first + i * 7 + (i >> 8))) continue;
    fail(std::string(what) + " " + std::to_string(message) + " has a wrong byte " + std::to_string(i));
  }
}

void Lane::check_pattern(const uint8_t* bytes, std::size_t from, std::size_t length) const {
  for (std::size_t i = from; i < length; ++i) {
    if (bytes[i] != byte_of(0, false, i)) fail("a READ has a wrong byte " + std::to_string(i));
  }
}

void Lane::post_receive(uint32_t slot) {
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data() + receive_at(slot)), static_cast<uint32_t>(kSlot), mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = uint64_t{1} << 63 | uint64_t{number_} << 32 | slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (kind_ == Kind::xrc || kind_ == Kind::srq) {
    must(ibv_post_srq_recv(srq_ != nullptr ? srq_ : host_.srq, &wr, &bad), "ibv_post_srq_recv");
  } else {
    must(ibv_post_recv(qp_, &wr, &bad), "ibv_post_recv");
  }
}

// The peer learns by a READ how far we are. A message waits until the peer has checked the one whose place it takes.
void Lane::send() {
  if (!reliable()) {
    if (under_way_ < kDepth) post(totals_.messages % 2 != 0 && kind_ == Kind::uc ? Op::write_imm : Op::send);
    return;
  }
  static constexpr Op kCycle[] = {Op::send, Op::write_imm, Op::add, Op::send, Op::read, Op::write_imm, Op::swap};
  while (under_way_ < kDepth) {
    const Op next = kCycle[posted_ % std::size(kCycle)];
    const bool message = next == Op::send || next == Op::write_imm;
    if (message && totals_.messages - peer_checked_ >= kReceives) {
      if (under_way_ == 0) post(Op::read);
      return;
    }
    post(next);
  }
}

void Lane::post(Op op) {
  Request& request = requests_[posted_ % kDepth];
  request = {op, 0, 0, std::chrono::steady_clock::now()};
  ibv_sge sge{0, 8, mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = uint64_t{number_} << 32 | posted_ % kDepth;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.rkey = remote_.rkey;
  wr.qp_type.xrc.remote_srqn = remote_.srqn;
  uint8_t* at = memory_.data() + result_at(posted_);
  const uint64_t peers_shared = remote_.memory + shared_at();
  switch (op) {
    case Op::send:
    case Op::write_imm:
      request.number = totals_.messages++;
      request.length = length_of(request.number, true);
      at = memory_.data() + send_at(posted_);
      fill(at, request.number, request.length);
      wr.opcode = op == Op::send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM;
      if (op == Op::write_imm) {
        wr.imm_data = static_cast<uint32_t>(request.number);
        wr.wr.rdma.remote_addr = remote_.memory + window_at(request.number);
      } else if (kind_ == Kind::ud) {
        wr.wr.ud = {.ah = ah_, .remote_qpn = remote_.qpn, .remote_qkey = kQkey};
      }
      break;
    case Op::read:
      request.number = totals_.reads++;
      request.length = kHead + mix(request.number) % (kShared - kHead);
      at = memory_.data() + landing_at(posted_);
      wr.opcode = IBV_WR_RDMA_READ;
      wr.wr.rdma.remote_addr = peers_shared;
      break;
    case Op::add:
      request.number = totals_.adds++;
      wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      wr.wr.atomic = {.remote_addr = peers_shared + 8, .compare_add = 1, .swap = 0, .rkey = remote_.rkey};
      break;
    case Op::swap:
      request.number = totals_.swaps++;
      wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
      wr.wr.atomic = {.remote_addr = peers_shared + 16,
                      .compare_add = request.number,
                      .swap = request.number + 1,
                      .rkey = remote_.rkey};
      break;
  }
  sge.addr = reinterpret_cast<uint64_t>(at);
  if (request.length != 0) sge.length = request.length;
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(qp_, &wr, &bad), "ibv_post_send");
  ++posted_;
  ++under_way_;
}

void Lane::completed(const ibv_wc& wc) {
  const uint64_t oldest = posted_ - under_way_;
  if ((wc.wr_id & 0xffffffff) != oldest % kDepth) fail("a completion came twice, or before its turn");
  const Request& request = requests_[oldest % kDepth];
  if (wc.status != IBV_WC_SUCCESS) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - request.posted;
    fail("request " + std::to_string(oldest) + " ended with " + ibv_wc_status_str(wc.status) + ", " +
         std::to_string(wc.vendor_err) + ", after " + std::to_string(waited.count()) + " s");
  }
  --under_way_;
  if (request.op == Op::read) {
    const uint8_t* landed = memory_.data() + landing_at(oldest);
    uint64_t checked = 0;
    std::memcpy(&checked, landed, sizeof checked);
    if (checked > totals_.messages) fail("a READ has a count that cannot be");
    peer_checked_ = std::max(peer_checked_, checked);  // a READ that is made again sees more than a later one did
    check_pattern(landed, kHead, request.length);
  } else if (request.op == Op::add || request.op == Op::swap) {
    uint64_t before = 0;
    std::memcpy(&before, memory_.data() + result_at(oldest), sizeof before);
    if (before != request.number) {
      fail("atomic " + std::to_string(request.number) + " found " + std::to_string(before) +
           (request.op == Op::add ? " added" : " swapped"));
    }
  }
}

void Lane::received(const ibv_wc& wc, uint32_t, const uint8_t* bytes) {
  if (wc.status != IBV_WC_SUCCESS) {
    fail(std::string("a receive ended with ") + ibv_wc_status_str(wc.status) + ", " + std::to_string(wc.vendor_err));
  }
  const bool with_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  uint64_t message = wc.imm_data;
  if (!with_imm) std::memcpy(&message, bytes + (kind_ == Kind::ud ? kGrh : 0), sizeof message);
  const uint64_t expected = totals_.received + lost_;
  if (reliable() ? message != expected : message < expected) {
    fail("message " + std::to_string(message) + " came where " + std::to_string(expected) + " was due");
  }
  lost_ += message - expected;
  ++totals_.received;
  if (!with_imm) {
    check(bytes + (kind_ == Kind::ud ? kGrh : 0), message, wc.byte_len - (kind_ == Kind::ud ? kGrh : 0), "SEND");
  } else if (reliable()) {
    check(memory_.data() + window_at(message), message, wc.byte_len, "WRITE");
  }
  if (reliable()) __atomic_store_n(shared(), totals_.received, __ATOMIC_RELEASE);
}

bool Lane::agrees(const Totals& peer) const {
  if (!reliable()) return totals_.received >= peer.messages;
  if (totals_.received > peer.messages) fail("more messages came than were sent");
  if (totals_.received < peer.messages) return false;
  uint64_t counts[3];
  std::memcpy(counts, memory_.data() + shared_at(), sizeof counts);
  if (counts[1] != peer.adds || counts[2] != peer.swaps) {
    fail("the peer made " + std::to_string(peer.adds) + " and " + std::to_string(peer.swaps) + " atomics, and " +
         std::to_string(counts[1]) + " and " + std::to_string(counts[2]) + " were executed");
  }
  return true;
}

}  // namespace alive
