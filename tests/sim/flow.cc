#include "tests/sim/flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "base/wr_opcodes.h"

namespace uroce::test {

namespace {

constexpr uint32_t kCounters = 4;
constexpr uint32_t kCells = 256;
uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29); }
void add(uint64_t& hash, const queues::Cqe& cqe) {
  const uint64_t fields[] = {cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len, cqe.imm_or_key, cqe.flags, cqe.qpn};
  for (const uint64_t field : fields) hash = mix(hash, field);
}
memory::Key issued(const Result<memory::Key>& key) {
  require(key.has_value(), "the region table is too small for the test");
  return *key;
}
bool is_write(WrOpcode op) { return op == WrOpcode::rdma_write || op == WrOpcode::rdma_write_with_imm; }

}  // namespace

Op random_op(Random& random, const FlowOptions& options) {
  static constexpr WrOpcode kOpcodes[] = {
      WrOpcode::send,       WrOpcode::send_with_imm, WrOpcode::send_with_invalidate, WrOpcode::rdma_write,
      WrOpcode::rdma_write, WrOpcode::rdma_read,     WrOpcode::rdma_write_with_imm,  WrOpcode::rdma_read,
      WrOpcode::fetch_add,  WrOpcode::compare_swap,  WrOpcode::atomic_write,         WrOpcode::flush,
  };
  Op op;
  op.opcode = kOpcodes[random.below(std::size(kOpcodes))];
  // Small, around a packet, and long messages all matter.
  const uint64_t kind = random.below(4);
  op.length = static_cast<uint32_t>(kind == 0 ? random.below(9) : random.below(options.max_message + 1));
  if (kind == 1) op.length = std::min(op.length, 256u) / 4 * 4;
  op.signaled = random.chance(0.6);
  op.fence = options.fences && random.chance(0.05);
  op.inline_data = op.length <= 256 && op.opcode != WrOpcode::rdma_read && random.chance(0.3);
  op.solicited = random.chance(0.1);
  const uint64_t memory = random.below(10);
  op.local = memory == 0 ? LocalMemory::null_region : memory == 1 ? LocalMemory::on_demand : LocalMemory::region;
  op.zero_based = random.chance(0.2);
  if (op.local != LocalMemory::region) op.inline_data = false;
  if (is_atomic(op.opcode)) {
    op.length = 8;
    op.inline_data = false;
  }
  if (is_placement(op.opcode)) {
    op.length = 0;
    op.inline_data = false;
  }
  return op;
}

Flow::Flow(TestEndpoint& from, TestQp& from_qp, TestCq& send_cq, TestEndpoint& to, TestQp& to_qp, TestCq& recv_cq,
           const FlowOptions& options, uint64_t seed)
    : from_qp_(from_qp),
      send_cq_(send_cq),
      to_qp_(to_qp),
      recv_cq_(recv_cq),
      options_(options),
      random_(seed),
      receive_random_(~seed),
      source_(from.make_region(options.area, Access::local_write)),
      write_place_(make_target(to, options.area, kAllAccess)),
      read_source_(make_target(to, options.area, Access::remote_read)),
      read_place_(from.make_region(options.area, Access::local_write)),
      counters_(make_target(to, kCounters * 8, kAllAccess)),
      results_(from.make_region(kCells * 8, Access::local_write)),
      inbox_(to.make_region(std::size_t{options.recv_depth} * options.max_message, Access::local_write)),
      near_keys_(from.regions()),
      far_keys_(to.regions()),
      null_key_(issued(near_keys_.add_null(1))),
      write_shadow_(write_place_.region.bytes().begin(), write_place_.region.bytes().end()),
      read_shadow_(read_place_.bytes().begin(), read_place_.bytes().end()),
      counter_shadow_(kCounters) {
  std::memcpy(counter_shadow_.data(), counters_.region.bytes().data(), kCounters * 8);
}

void Flow::violate(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

/// The range as one to four entries.
std::vector<Sge> Flow::gather(Random& random, TestRegion& region, uint64_t offset, uint32_t length) {
  std::vector<Sge> sges;
  const uint64_t pieces = 1 + random.below(4);
  for (uint64_t left = pieces; left > 1 && length > 0; --left) {
    const auto piece = static_cast<uint32_t>(random.below(length + 1));
    sges.push_back(region.sge(offset, piece));
    offset += piece;
    length -= piece;
  }
  sges.push_back(region.sge(offset, length));
  return sges;
}

// A key for one SEND with invalidate, which must stop working with that message and not twice.
memory::Key Flow::make_invalidatable() {
  return issued(far_keys_.add({.pd = 1,
                               .address = 0,
                               .length = 8,
                               .host = counters_.region.bytes().data(),
                               .access = AccessFlags(Access::local_write) | Access::remote_invalidate}));
}

void Flow::check_invalidated(memory::Key key) {
  if (far_keys_.translate(key, 1, 0, 8, {}).result != memory::AccessResult::bad_key) {
    violate(fmt::format("key {:#x} still works after a SEND that invalidates it", key));
  }
  far_keys_.remove(key);
  far_keys_.retire(key);
}

Flow::Target Flow::make_target(TestEndpoint& to, std::size_t bytes, AccessFlags access) {
  TestRegion& region = to.make_region(bytes, access);
  const auto key =
      to.regions().add({.pd = 1, .address = 0, .length = bytes, .host = region.bytes().data(), .access = access});
  return {region, issued(key)};
}

void Flow::aim(SendRequest& request, const Op& op, const Target& target, uint64_t offset) {
  remote_offset_ = offset;
  request.remote_addr = op.zero_based ? offset : target.region.va() + offset;
  request.rkey = op.zero_based ? target.zero_based_key : target.region.key();
}

/// Gives entries within `region` the keys that the operation wants.
void Flow::place_locally(Posted& posted, TestRegion& region, std::vector<Sge>& sges) {
  for (Sge& sge : sges) {
    if (posted.op.local == LocalMemory::null_region && random_.chance(0.5)) sge.lkey = null_key_;
    if (posted.op.local != LocalMemory::on_demand || sge.length == 0) continue;
    sge.lkey = issued(near_keys_.add({.pd = 1,
                                      .address = sge.addr,
                                      .length = sge.length,
                                      .host = region.bytes().data() + (sge.addr - region.va()),
                                      .access = Access::local_write}));
    posted.keys.push_back(sge.lkey);
  }
}

void Flow::prepare(const Op& op, SendRequest& request, Posted& posted, std::vector<Sge>& sges) {
  request.wr_id = posted.wr_id;
  request.opcode = op.opcode;
  if (op.fence) request.flags |= SendFlag::fence;
  if (op.solicited) request.flags |= SendFlag::solicited;
  request.imm_or_key =
      op.opcode == WrOpcode::send_with_invalidate ? make_invalidatable() : static_cast<uint32_t>(random_.next());
  if (is_atomic(op.opcode)) {
    const uint64_t cell = random_.below(kCounters);
    posted.result_cell = static_cast<uint32_t>(atomics_++ % kCells);
    sges = {results_.sge(posted.result_cell * 8, 8)};
    place_locally(posted, results_, sges);
    aim(request, op, counters_, cell * 8);
    request.compare_add = random_.next();
    request.swap = random_.next();
    // Half of the compares hit.
    if (op.opcode == WrOpcode::compare_swap && random_.chance(0.5)) request.compare_add = counter_shadow_[cell];
  } else if (op.opcode == WrOpcode::atomic_write) {
    aim(request, op, counters_, random_.below(kCounters) * 8);
    request.swap = random_.next();
  } else if (op.opcode == WrOpcode::flush) {
    aim(request, op, write_place_, 0);
    request.flush.length = static_cast<uint32_t>(random_.below(options_.area + 1));
    request.flush.scope = random_.chance(0.5) ? FlushScope::range : FlushScope::region;
  } else if (op.opcode == WrOpcode::rdma_read) {
    const uint64_t to = random_.below(options_.area - op.length + 1);
    source_offset_ = random_.below(options_.area - op.length + 1);
    sges = gather(random_, read_place_, to, op.length);
    place_locally(posted, read_place_, sges);
    aim(request, op, read_source_, source_offset_);
  } else {
    source_offset_ = random_.below(options_.area - op.length + 1);
    sges = gather(random_, source_, source_offset_, op.length);
    place_locally(posted, source_, sges);
    aim(request, op, write_place_, random_.below(options_.area - op.length + 1));
  }
  request.sges = sges;
  if (!op.inline_data) return;
  request.flags |= SendFlag::inline_data;
  request.inline_data = source_.bytes().subspan(source_offset_, op.length);
}

/// The bytes that a SEND or WRITE carries.
std::vector<std::byte> Flow::payload_of(const SendRequest& request, uint32_t length) {
  const std::byte* source = source_.bytes().data() + source_offset_;
  std::vector<std::byte> payload(source, source + length);
  auto at = payload.begin();
  for (const Sge& sge : request.sges) {
    if (sge.lkey == null_key_) std::fill_n(at, sge.length, std::byte{0});
    at += sge.length;
  }
  return payload;
}

/// Applies the operation to the shadows.
void Flow::apply(const SendRequest& request, const Op& op, Posted& posted) {
  if (is_write(op.opcode)) {
    std::ranges::copy(payload_of(request, op.length),
                      write_shadow_.begin() + static_cast<std::ptrdiff_t>(remote_offset_));
  }
  if (op.opcode == WrOpcode::rdma_read) {
    const std::byte* from = read_source_.region.bytes().data() + remote_offset_;
    for (const Sge& sge : request.sges) {
      if (sge.lkey != null_key_) std::copy_n(from, sge.length, read_shadow_.data() + (sge.addr - read_place_.va()));
      from += sge.length;
    }
  }
  if (is_atomic(op.opcode)) {
    uint64_t& cell = counter_shadow_[remote_offset_ / 8];
    posted.original = cell;
    if (op.opcode == WrOpcode::fetch_add) {
      cell += request.compare_add;
    } else if (cell == request.compare_add) {
      cell = request.swap;
    }
    // The result goes nowhere: its place stays as it is.
    if (request.sges.front().lkey == null_key_) posted.original = result_at(posted.result_cell);
  }
  if (op.opcode == WrOpcode::atomic_write) counter_shadow_[remote_offset_ / 8] = request.swap;
  if (takes_recv(op.opcode)) messages_.push_back({op.opcode, payload_of(request, op.length), request.imm_or_key});
}

uint64_t Flow::result_at(uint32_t cell) {
  uint64_t result = 0;
  std::memcpy(&result, results_.bytes().data() + std::size_t{cell} * 8, 8);
  return result;
}

/// No key of the operation works any longer: an engine that still used one would fail.
void Flow::pop_posted() {
  for (const memory::Key key : posted_.front().keys) {
    near_keys_.remove(key);
    near_keys_.retire(key);
  }
  posted_.pop_front();
}

bool Flow::post(const Op& op) {
  // The oracle must not run ahead of a post that is refused.
  if (posted_.size() >= from_qp_.send_ring().entries || posted_.size() >= kCells) return false;
  Posted posted{next_wr_, op};
  if (!from_qp_.has_send_room()) return false;
  SendRequest request;
  std::vector<Sge> sges;
  prepare(op, request, posted, sges);
  // A queue full of unsignaled requests would tell nobody that it has emptied.
  if (op.signaled || since_signal_ + 1 >= std::min(8u, from_qp_.send_ring().entries / 2)) {
    request.flags |= SendFlag::signaled;
    posted.op.signaled = true;
  }
  require(from_qp_.post_send(request), "no room though there was some");
  since_signal_ = posted.op.signaled ? 0 : since_signal_ + 1;
  ++next_wr_;
  apply(request, op, posted);
  posted_.push_back(std::move(posted));
  return true;
}

void Flow::post_receives(uint32_t most) {
  while (receives_posted_ < std::min(most, options_.recv_depth)) {
    const uint64_t slot = next_recv_ % options_.recv_depth;
    Random& random = options_.same_at_any_pace ? receive_random_ : random_;
    const std::vector<Sge> sges = gather(random, inbox_, slot * options_.max_message, options_.max_message);
    if (!to_qp_.post_recv({.wr_id = next_recv_, .sges = sges})) return;
    ++next_recv_;
    ++receives_posted_;
  }
}

std::string Flow::describe_oldest() const {
  if (posted_.empty()) return "none";
  const Posted& oldest = posted_.front();
  return fmt::format("{} work requests, oldest wr {} opcode {} length {}", posted_.size(), oldest.wr_id,
                     static_cast<int>(oldest.op.opcode), oldest.op.length);
}

bool Flow::poll() {
  bool any = false;
  while (const auto cqe = send_cq_.poll()) {
    any = true;
    add(send_hash_, *cqe);
    on_send_cqe(*cqe);
  }
  while (const auto cqe = recv_cq_.poll()) {
    any = true;
    add(recv_hash_, *cqe);
    on_recv_cqe(*cqe);
  }
  return any;
}

uint64_t Flow::outcome() const {
  uint64_t hash = mix(send_hash_, recv_hash_);
  for (TestRegion* region : {&write_place_.region, &read_place_, &counters_.region, &results_, &inbox_}) {
    const std::span<const std::byte> bytes = region->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    hash = mix(hash, std::hash<std::string_view>{}(text));
  }
  return hash;
}

void Flow::on_send_cqe(const queues::Cqe& cqe) {
  const auto status = static_cast<WcStatus>(cqe.status);
  if (failure_.has_value()) {
    // Every work request behind the one that failed is flushed, in order, signaled or not.
    if (status != WcStatus::flushed) violate(fmt::format("wr {} completed after a failure", cqe.wr_id));
    if (posted_.empty() || posted_.front().wr_id != cqe.wr_id) {
      violate(fmt::format("wr {} flushed out of order", cqe.wr_id));
    } else {
      pop_posted();
    }
    return;
  }
  // Unsignaled ones before this one have completed silently.
  while (!posted_.empty() && posted_.front().wr_id != cqe.wr_id && !posted_.front().op.signaled) {
    check_atomic(posted_.front());
    pop_posted();
    ++completed_;
  }
  if (posted_.empty() || posted_.front().wr_id != cqe.wr_id) {
    violate(fmt::format("wr {} completed, but {} is next", cqe.wr_id, posted_.empty() ? 0 : posted_.front().wr_id));
    return;
  }
  if (status != WcStatus::success) {
    failure_ = status;
    failed_opcode_ = posted_.front().op.opcode;
  } else {
    on_success(cqe);
  }
  pop_posted();
}

void Flow::on_success(const queues::Cqe& cqe) {
  const Posted& posted = posted_.front();
  if (!posted.op.signaled) violate(fmt::format("wr {} completed though it is not signaled", cqe.wr_id));
  if (posted.op.opcode == WrOpcode::rdma_read && cqe.byte_len != posted.op.length) {
    violate(fmt::format("READ wr {} reports {} bytes of {}", cqe.wr_id, cqe.byte_len, posted.op.length));
  }
  check_atomic(posted);
  ++completed_;
}

void Flow::check_atomic(const Posted& posted) {
  if (!is_atomic(posted.op.opcode)) return;
  const uint64_t result = result_at(posted.result_cell);
  if (result != posted.original) {
    violate(fmt::format("atomic wr {} returned {:#x}, not {:#x}", posted.wr_id, result, posted.original));
  }
}

void Flow::on_recv_cqe(const queues::Cqe& cqe) {
  if (cqe.status == static_cast<uint8_t>(WcStatus::flushed)) return;
  if (cqe.status != static_cast<uint8_t>(WcStatus::success)) {
    violate(fmt::format("receive {} failed with status {}", cqe.wr_id, cqe.status));
    return;
  }
  if (messages_.empty() || cqe.wr_id != next_recv_done_) {
    violate(fmt::format("receive {} completed, but {} is next and {} messages are due", cqe.wr_id, next_recv_done_,
                        messages_.size()));
    return;
  }
  ++next_recv_done_;
  --receives_posted_;
  const Message message = std::move(messages_.front());
  messages_.pop_front();
  const bool imm = message.opcode == WrOpcode::send_with_imm || message.opcode == WrOpcode::rdma_write_with_imm;
  const bool inv = message.opcode == WrOpcode::send_with_invalidate;
  const WcFlags flags = WcFlags::from_bits(cqe.flags);
  if (cqe.byte_len != message.payload.size()) {
    violate(fmt::format("receive {} has {} bytes of {}", cqe.wr_id, cqe.byte_len, message.payload.size()));
  }
  if (flags.has(WcFlag::with_imm) != imm || flags.has(WcFlag::with_invalidate) != inv ||
      ((imm || inv) && cqe.imm_or_key != message.imm_or_key)) {
    violate(fmt::format("receive {} has the wrong immediate data or key", cqe.wr_id));
  }
  if (inv) check_invalidated(message.imm_or_key);
  if (message.opcode == WrOpcode::rdma_write_with_imm) return;
  const std::byte* inbox = inbox_.bytes().data() + cqe.wr_id % options_.recv_depth * options_.max_message;
  if (!std::equal(message.payload.begin(), message.payload.end(), inbox)) {
    violate(fmt::format("receive {} has the wrong bytes", cqe.wr_id));
  }
}

void Flow::check_memory() {
  if (!std::equal(write_shadow_.begin(), write_shadow_.end(), write_place_.region.bytes().begin())) {
    violate("the memory that WRITEs go to differs from the oracle");
  }
  if (!std::equal(read_shadow_.begin(), read_shadow_.end(), read_place_.bytes().begin())) {
    violate("the memory that READs fill differs from the oracle");
  }
  if (std::memcmp(counters_.region.bytes().data(), counter_shadow_.data(), kCounters * 8) != 0) {
    violate("the counters that atomics change differ from the oracle");
  }
  if (find_mismatch(source_.bytes(), source_.stream()) != options_.area ||
      find_mismatch(read_source_.region.bytes(), read_source_.region.stream()) != options_.area) {
    violate("memory that nobody writes has changed");
  }
  if (!messages_.empty()) violate(fmt::format("{} messages were never received", messages_.size()));
}

}  // namespace uroce::test
